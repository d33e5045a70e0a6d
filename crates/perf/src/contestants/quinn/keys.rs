//! The server that a client trusts: the one that has the private half of a key, without any certificate.

use std::error::Error;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, PeerIncompatible, ServerConfig, SignatureScheme};

/// A private key for Ed25519 up to its 32 bytes (RFC 8410 section 7).
const ED25519: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// Bytes of its secret.
const SECRET: usize = 32;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A server with a new key; gives the public half, as clients take it.
pub(crate) fn server() -> Result<(quinn::ServerConfig, Vec<u8>), Box<dyn Error>> {
    let provider = provider();
    let mut key = ED25519.to_vec();
    key.resize(ED25519.len() + SECRET, 0);
    provider.secure_random.fill(&mut key[ED25519.len()..]).map_err(|_| "no random numbers from the kernel")?;
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key))?;
    let public = key.public_key().ok_or("the key has no public half")?.as_ref().to_vec();
    let certified = CertifiedKey::new(vec![CertificateDer::from(public.clone())], key);
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
    Ok((quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config)?)), public))
}

/// A client of the server with this public key, and of no other.
pub(crate) fn client(public: Vec<u8>) -> Result<quinn::ClientConfig, Box<dyn Error>> {
    let provider = provider();
    let verifier = Arc::new(OnlyKey { public, provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config)?)))
}

/// Accepts one public key.
#[derive(Debug)]
struct OnlyKey {
    public: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OnlyKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if end_entity.as_ref() == self.public {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_key_of_its_own() {
        let [one, other] = [(); 2].map(|()| server().unwrap().1);
        assert_ne!(one, other);
        assert_eq!(one.len(), 44, "RFC 8410 section 4: 12 bytes of names, 32 of key");
    }
}
