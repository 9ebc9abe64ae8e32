"""The part of a domain that one owner has, by the Public Suffix List. Pure, and without network.

https://publicsuffix.org: the list comes with the package publicsuffixlist, with its private part.
"""

from functools import cache, lru_cache

from publicsuffixlist import PublicSuffixList

# Everybody can get a name below these too, but the list does not have them.
ALSO_OPEN = frozenset(
    """
    amazonaws.com atlassian.net freshdesk.com glitch.me hubspotpagebuilder.com jimdosite.com medium.com sendgrid.net
    sharepoint.com squarespace.com substack.com tumblr.com webador.com weebly.com windows.net wordpress.com zendesk.com
    """.split()
)


@lru_cache(maxsize=50_000)
def ending_of(domain: str) -> str:
    """Return the longest ending of an ASCII domain below which everybody can get a name.

    `mail.northwind.co.uk` → `co.uk`; `northwind.github.io` → `github.io`.
    """
    labels = domain.split(".")
    for first in range(len(labels)):
        ending = ".".join(labels[first:])
        if ending in ALSO_OPEN:
            return ending
    return _list().publicsuffix(domain) or domain


def owned_part_of(domain: str) -> str:
    """Return the ending and the label before it; for an ending itself the domain."""
    ending = ending_of(domain)
    before = domain.removesuffix(ending).rstrip(".").rpartition(".")[2]
    return f"{before}.{ending}" if before else domain


def is_open(domain: str) -> bool:
    """Return True if everybody can get a name below this domain."""
    return ending_of(domain) == domain


def is_of_registry(ending: str) -> bool:
    """Return True for an ending of a country or of ICANN, False for one that a company offers."""
    return ending not in ALSO_OPEN and _registries().publicsuffix(ending) == ending


@cache
def _list() -> PublicSuffixList:
    return PublicSuffixList()


@cache
def _registries() -> PublicSuffixList:
    return PublicSuffixList(only_icann=True)
