//! Weft's public interface: RDMA over ordinary Ethernet, in user space.
#![forbid(unsafe_code)]
