//! Ports that are one of several kinds.

/// Implements [`Port`](crate::Port) for an enum of ports: each call goes to whichever it is.
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

            fn abort(&mut self) {
                match self {
                    $(Self::$kind(port) => $crate::Port::abort(port),)+
                }
            }
        }
    };
}
