//! Peers that read nothing for long, and hosts that vanish.

use super::*;

/// Sends until the peer's window is closed and the kernel's buffer full.
fn fill(port: &mut TcpPort) -> usize {
    let block = vec![7; 64 << 10];
    let mut sent = 0;
    let mut idle_since = None;
    loop {
        match port.send(&[Piece::Bytes(&block)]).unwrap() {
            0 if idle_since.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(100) => return sent,
            0 => thread::yield_now(),
            more => (sent, idle_since) = (sent + more, None),
        }
    }
}

/// Checks the peer as the NIC does, until it is lost or `most` has passed. Returns how long that took.
fn check_until(port: &mut TcpPort, most: Duration) -> Result<(), Duration> {
    static CLOCK: OnceLock<MonotonicClock> = OnceLock::new();
    let (clock, begun) = (CLOCK.get_or_init(MonotonicClock::new), Instant::now());
    while begun.elapsed() < most {
        if let Err(error) = port.check_peer(clock.now()) {
            assert_eq!(error, PortError::TimedOut);
            return Err(begun.elapsed());
        }
        thread::sleep(PEER_TIMEOUT / 16);
    }
    Ok(())
}

#[test]
fn a_peer_that_takes_nothing_for_long_is_not_lost() {
    let mut bench = Bench::new();
    let options =
        PortOptions { peer_timeout: Some(PEER_TIMEOUT), buffer_bytes: Some(50_000), ..PortOptions::default() };
    let (mut active, mut passive) = bench.pair_with(options);
    let (forth, back) = (fill(&mut active), fill(&mut passive));
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(check_until(&mut active, 4 * PEER_TIMEOUT), Ok(())));
        assert_eq!(check_until(&mut passive, 4 * PEER_TIMEOUT), Ok(()));
    });
    assert_eq!(bench.receive_exactly(&mut passive, forth), vec![7; forth]);
    assert_eq!(bench.receive_exactly(&mut active, back), vec![7; back]);
}

#[test]
fn a_host_that_vanishes_is_noticed_in_time() {
    // In a network of this thread's own, which it can switch off.
    thread::spawn(|| {
        let Some(switch) = Switch::new() else { return println!("skipped: no network of its own can be had") };
        for window_is_closed in [false, true] {
            switch.set(true);
            let mut bench = Bench::new();
            let options =
                PortOptions { peer_timeout: Some(PEER_TIMEOUT), buffer_bytes: Some(50_000), ..PortOptions::default() };
            let (mut active, _passive) = bench.pair_with(options);
            if window_is_closed {
                fill(&mut active);
                assert_eq!(check_until(&mut active, PEER_TIMEOUT), Ok(()));
            }
            switch.set(false);
            if !window_is_closed {
                active.send(&[Piece::Bytes(b"is anybody there?")]).unwrap();
            }
            let noticed = check_until(&mut active, PATIENCE.unwrap()).unwrap_err();
            println!("noticed after {noticed:?}");
            assert!(noticed >= PEER_TIMEOUT / 2, "{noticed:?}");
            let mut byte = [0];
            assert_eq!(active.receive(&mut [ReceivePiece::Staging(&mut byte)]), Err(PortError::TimedOut));
            assert_eq!(active.send(&[Piece::Bytes(b"?")]), Err(PortError::TimedOut));
        }
    })
    .join()
    .unwrap();
}

/// The loopback of a network that only this thread is in.
struct Switch(socket2::Socket);

impl Switch {
    fn new() -> Option<Self> {
        // SAFETY: Takes a number; only this thread moves.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return None;
        }
        Some(Self(socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap()))
    }

    fn set(&self, on: bool) {
        // SAFETY: Names and numbers, of which zero is one.
        let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
        (request.ifr_name[0], request.ifr_name[1]) = (b'l' as libc::c_char, b'o' as libc::c_char);
        request.ifr_ifru.ifru_flags = if on { libc::IFF_UP as libc::c_short } else { 0 };
        // SAFETY: The descriptor is open; the request is read during the call alone.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}
