//! Ports that are one of several kinds.

/// Implements [`Port`](crate::Port), [`Segmented`](crate::Segmented) and [`Lending`](crate::Lending) for an enum of
/// ports: each call goes to whichever it is.
#[macro_export]
macro_rules! either_port {
    ($name:ident { $($kind:ident),+ }) => {
        impl $crate::Port for $name {
            fn send(&mut self, pieces: &[$crate::Piece<'_>]) -> Result<usize, $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Port::send(port, pieces),)+
                }
            }

            fn receive(
                &mut self,
                pieces: &mut [$crate::ReceivePiece<'_>],
            ) -> Result<$crate::Received, $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Port::receive(port, pieces),)+
                }
            }

            #[inline]
            fn is_still(&mut self) -> bool {
                match self {
                    $(Self::$kind(port) => $crate::Port::is_still(port),)+
                }
            }

            fn poll_connected(&mut self) -> Result<bool, $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Port::poll_connected(port),)+
                }
            }

            fn check_peer(&mut self, now: $crate::Time) -> Result<(), $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Port::check_peer(port, now),)+
                }
            }

            fn segment_size(&self) -> u32 {
                match self {
                    $(Self::$kind(port) => $crate::Port::segment_size(port),)+
                }
            }

            fn keeps_bytes(&self) -> bool {
                match self {
                    $(Self::$kind(port) => $crate::Port::keeps_bytes(port),)+
                }
            }

            fn local_address(&self) -> Result<::std::net::SocketAddr, $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Port::local_address(port),)+
                }
            }

            fn remote_address(&self) -> ::std::net::SocketAddr {
                match self {
                    $(Self::$kind(port) => $crate::Port::remote_address(port),)+
                }
            }

            fn close_send(&mut self) {
                match self {
                    $(Self::$kind(port) => $crate::Port::close_send(port),)+
                }
            }

            fn unacknowledged(&self) -> usize {
                match self {
                    $(Self::$kind(port) => $crate::Port::unacknowledged(port),)+
                }
            }

            fn round_trip(&self) -> ::core::option::Option<::core::time::Duration> {
                match self {
                    $(Self::$kind(port) => $crate::Port::round_trip(port),)+
                }
            }

            fn abort(&mut self) {
                match self {
                    $(Self::$kind(port) => $crate::Port::abort(port),)+
                }
            }
        }

        impl $crate::Segmented for $name {
            fn send_units(
                &mut self,
                pieces: &[$crate::Piece<'_>],
                units: &mut dyn Iterator<Item = u32>,
            ) -> Result<usize, $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Segmented::send_units(port, pieces, units),)+
                }
            }

            fn shows_segments(&self) -> bool {
                match self {
                    $(Self::$kind(port) => $crate::Segmented::shows_segments(port),)+
                }
            }

            fn begin_segments(&mut self) -> Option<$crate::StreamPosition> {
                match self {
                    $(Self::$kind(port) => $crate::Segmented::begin_segments(port),)+
                }
            }

            fn receive_segments(
                &mut self,
                take: &mut dyn FnMut($crate::StreamPosition, &[u8]) -> bool,
            ) -> Result<$crate::Received, $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Segmented::receive_segments(port, take),)+
                }
            }
        }

        impl $crate::Lending for $name {
            fn begin_borrowing(&mut self) -> bool {
                match self {
                    $(Self::$kind(port) => $crate::Lending::begin_borrowing(port),)+
                }
            }

            fn can_lend(&mut self) -> bool {
                match self {
                    $(Self::$kind(port) => $crate::Lending::can_lend(port),)+
                }
            }

            fn lend(&mut self, slices: &[$crate::Slice], lent: &mut [$crate::Lent]) -> Result<(), $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Lending::lend(port, slices, lent),)+
                }
            }

            fn take_returned(&mut self) -> Result<usize, $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Lending::take_returned(port),)+
                }
            }

            fn revoke(&mut self) {
                match self {
                    $(Self::$kind(port) => $crate::Lending::revoke(port),)+
                }
            }

            fn borrow_into(
                &mut self,
                lent: &[$crate::Lent],
                into: &[$crate::Slice],
            ) -> Result<(), $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::Lending::borrow_into(port, lent, into),)+
                }
            }
        }
    };
}

/// Implements [`DatagramPort`](crate::DatagramPort) for an enum of datagram ports: each call goes to whichever it is.
#[macro_export]
macro_rules! either_datagram_port {
    ($name:ident { $($kind:ident),+ }) => {
        impl $crate::DatagramPort for $name {
            fn send(
                &mut self,
                batch: &$crate::DatagramBatch,
                pieces: &[$crate::Piece<'_>],
            ) -> Result<$crate::DatagramSent, $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::DatagramPort::send(port, batch, pieces),)+
                }
            }

            fn receive(
                &mut self,
                buffer: &mut [u8],
                received: &mut Vec<$crate::ReceivedDatagrams>,
            ) -> Result<usize, $crate::PortError> {
                match self {
                    $(Self::$kind(port) => $crate::DatagramPort::receive(port, buffer, received),)+
                }
            }

            fn poll_hint(&mut self) -> Option<$crate::Hint> {
                match self {
                    $(Self::$kind(port) => $crate::DatagramPort::poll_hint(port),)+
                }
            }

            fn limits(&self) -> $crate::DatagramLimits {
                match self {
                    $(Self::$kind(port) => $crate::DatagramPort::limits(port),)+
                }
            }

            fn counters(&self) -> $crate::DatagramCounters {
                match self {
                    $(Self::$kind(port) => $crate::DatagramPort::counters(port),)+
                }
            }

            fn local_address(&self) -> $crate::PortAddress {
                match self {
                    $(Self::$kind(port) => $crate::DatagramPort::local_address(port),)+
                }
            }
        }
    };
}
