//! What all that is measured of endpoints shares: how they are opened, and how the other side gets their address.

use std::net::SocketAddr;

use weft::endpoint::{Address, EndpointAttributes};
use weft_command::environment;

use crate::contestants::weft::demands::resolve;
use crate::contestants::weft::settings::Settings;
use crate::model::job::Job;

/// Tag of the payload.
pub(super) const DATA: u64 = 1;

pub(super) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// How the endpoint of a job is opened.
pub(super) fn attributes(job: &Job, settings: &Settings) -> Outcome<EndpointAttributes> {
    let local = match &job.local {
        Some(local) => resolve(local, 0)?,
        None => SocketAddr::new(way_to(&job.host)?, 0),
    };
    let mut attributes = EndpointAttributes::at(local);
    attributes.settings = environment::parameters().endpoint;
    attributes.settings.transport = settings.stack().transport.into();
    attributes.key = settings.key();
    Ok(attributes)
}

/// The address of this machine from which a host is reached.
fn way_to(host: &str) -> Outcome<std::net::IpAddr> {
    let probe = std::net::UdpSocket::bind(("0.0.0.0", 0)).or_else(|_| std::net::UdpSocket::bind(("::", 0)))?;
    // Nothing is sent by this.
    probe.connect((host, 1))?;
    Ok(probe.local_addr()?.ip())
}

/// As the other side reads it.
pub(super) fn write_address(Address { id, paths, .. }: &Address) -> String {
    let paths: Vec<_> = paths.iter().map(SocketAddr::to_string).collect();
    format!("{id}@{}", paths.join(","))
}

pub(super) fn read_address(text: &str) -> Option<Address> {
    let (id, paths) = text.split_once('@')?;
    let paths: Vec<SocketAddr> = paths.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(Address { id: id.parse().ok()?, paths: paths.as_slice().try_into().ok()?, transport: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way() {
        let address = read_address("77@127.0.0.1:80,[::1]:90").unwrap();
        assert_eq!((address.id, address.paths.len()), (77, 2));
        assert_eq!(address.paths[1].port(), 90);
        for damaged in ["", "77", "x@127.0.0.1:80", "77@127.0.0.1", "77@"] {
            assert!(read_address(damaged).is_none(), "{damaged:?}");
        }
    }
}
