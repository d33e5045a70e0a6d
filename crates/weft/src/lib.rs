//! **Weft is a software RDMA NIC**: RDMA over ordinary Ethernet and IP, in user space, with no kernel module and no
//! special hardware. On the wire it speaks standard iWARP (RFC 5040, 5041, 5044, 6581, 7306), so its peer may be
//! another Weft, Linux siw or an iWARP NIC.
//!
//! [`verbs`] is the interface: contexts, protection domains, memory regions, queue pairs, completion queues, listeners.
//! [`stream`] has plain sockets beside them, over the same NIC. [`settings`] are those of the environment, for programs
//! that want to honour what Weft's provider for libfabric does.
//! With the feature `tokio` there is a module `tokio`: connecting, accepting and completions as futures.
//!
//! # Example
//! Two queue pairs of one program: a message, then a write into the peer's memory without its help.
//! ```
//! use std::time::Duration;
//! use weft::verbs::{Access, ConnectOptions, Context, ListenOptions, QueuePairOptions, WorkRequest};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = Context::open()?;
//! let domain = context.allocate_protection_domain()?;
//! let completions = context.create_completion_queue(64)?;
//! let second = Some(Duration::from_secs(1));
//!
//! // The passive side listens; the active side connects; both get a queue pair.
//! let listener = context.listen("127.0.0.1:0".parse()?, &ListenOptions::default())?;
//! let passive = domain.create_queue_pair(&completions, &QueuePairOptions::default())?;
//! let active = domain.create_queue_pair(&completions, &QueuePairOptions::default())?;
//!
//! // A region that a peer may write, and a receive for the first message.
//! let window = domain.allocate(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//! let inbox = domain.allocate(64, Access::LOCAL_WRITE)?;
//! passive.post_receive(1, &[inbox.slice(..)?])?;
//!
//! active.start_connect(listener.local_address(), &ConnectOptions::default())?;
//! listener.accept(second)?.accept(&passive, &[])?;
//! active.wait_connected(second)?;
//!
//! // A message.
//! active.post(WorkRequest::send_inline(b"hello, passive side")?.id(2))?;
//! let received = completions.wait_for(|completion| completion.id == 1, second)?;
//! let mut text = vec![0; received.length as usize];
//! inbox.read(0, &mut text)?;
//! assert_eq!(text, b"hello, passive side");
//!
//! // A write. Where to came with the application's own messages; here we just know it. The receive of the message that
//! // follows it is posted first: a message that finds none ends the connection.
//! passive.post_receive(5, &[inbox.slice(..)?])?;
//! let source = domain.register(b"written by the peer".to_vec(), Access::LOCAL_READ)?;
//! active.post(WorkRequest::write(source.slice(..)?, window.remote(100)).id(3))?;
//! active.post(WorkRequest::send_inline(b"it is there")?.id(4))?;
//! completions.wait_for(|completion| completion.id == 5, second)?;
//! let mut written = [0; 19];
//! window.read(100, &mut written)?;
//! assert_eq!(&written, b"written by the peer");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod endpoint;
pub mod group;
pub mod settings;
pub mod stream;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod verbs;
pub mod window;
