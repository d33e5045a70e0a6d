//! The C ABI of libfabric, declared by hand, and a client that loads libfabric at run time.
