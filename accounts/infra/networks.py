"""The network that a request came from; mailhub never keeps the whole address."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from allauth.account.adapter import get_adapter
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

PREFIX = {4: 24, 6: 48}


def network_of(request: HttpRequest | None) -> str:
    """Return the client's network, `203.0.113.0/24` or `2001:db8:1::/48`; empty if unknown."""
    if request is None:
        return ""
    try:
        return network_of_address(get_adapter().get_client_ip(request))
    except PermissionDenied:  # the library found no address
        return ""


def network_of_address(text: str) -> str:
    """Return the /24 (IPv4) or /48 (IPv6) of an address; empty if the text is not an address."""
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return str(ip_network((address, PREFIX[address.version]), strict=False))
