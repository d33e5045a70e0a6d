//! MPA without I/O: start-up of a connection, framing and deframing with markers and CRC (RFC 5044, RFC 6581).
#![forbid(unsafe_code)]
