//! The operating system: TCP sockets, the clock, readiness and wake-ups.
