"""Certificates made while the tests run: an authority, and servers with a trusted or a self-signed
certificate.
"""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A certificate authority that lives as long as its folder; `file` is what SSL_CERT_FILE may
    name.
    """

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls, folder: Path) -> "Authority":
        """Make an authority with a fresh key and write its certificate into the folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Authority of the tests")
        certificate = (
            _builder(subject=name, issuer=name, key=key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_signs_certificates(), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        authority = cls(folder=folder, key=key, certificate=certificate)
        authority.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return authority

    @property
    def file(self) -> Path:
        """Return the path of the authority's certificate in PEM."""
        return self.folder / "authority.pem"

    def client_context(self) -> ssl.SSLContext:
        """Return a verifying client context that trusts only this authority."""
        return ssl.create_default_context(cafile=str(self.file))

    def server_context(self, *hosts: str, self_signed: bool = False) -> ssl.SSLContext:
        """Return a server context whose certificate is valid for the hosts, names or addresses."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_file(*hosts, self_signed=self_signed))
        return context

    def server_file(self, *hosts: str, self_signed: bool = False, expired: bool = False) -> Path:
        """Return a file with a fresh key and its certificate for the hosts, names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        signer = key if self_signed else self.key
        subject = _name("Server of the tests")
        names = [_alternative(host) for host in hosts]
        # The strict checks of Python 3.13 and later require the key identifier.
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        certificate = (
            _builder(
                subject=subject,
                issuer=subject if self_signed else self.certificate.subject,
                key=key,
                until=timedelta(minutes=-1) if expired else timedelta(days=1),
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(issued_by, critical=False)
            .sign(signer, hashes.SHA256())
        )
        file = self.folder / f"{certificate.serial_number:x}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return file


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("certificates"))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    *,
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    until: timedelta = timedelta(days=1),
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + until)
    )


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
