//! Two processes: the one writes a text into the memory of the other.
//!
//! Run it twice: as `hello listen 127.0.0.1:7471`, and then as `hello connect 127.0.0.1:7471`.

use std::error::Error;

use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, Context, ListenOptions, ProtectionDomain, QueuePair, QueuePairOptions,
    RemoteMemory, Stag, WorkRequest,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, address] = &arguments[..] else { return Err("give `listen ADDRESS` or `connect ADDRESS`".into()) };
    println!("{}", hello(role, address)?);
    Ok(())
}

/// Plays one of the two roles, and returns what has happened.
pub(crate) fn hello(role: &str, address: &str) -> Result<String, Box<dyn Error>> {
    // A software NIC, a domain in which queue pairs reach memory, and a place where finished work is reported.
    let context = Context::open()?;
    let domain = context.allocate_protection_domain()?;
    let completions = context.create_completion_queue(16)?;
    let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default())?;
    match role {
        "listen" => passive(&context, &domain, &completions, &queue_pair, address),
        _ => active(&domain, &completions, &queue_pair, address),
    }
}

fn passive(
    context: &Context,
    domain: &ProtectionDomain,
    completions: &CompletionQueue,
    queue_pair: &QueuePair,
    address: &str,
) -> Result<String, Box<dyn Error>> {
    // Memory that the peer may write, and a receive for the message with the number of bytes that it has written.
    let window = domain.allocate(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let inbox = domain.allocate(8, Access::LOCAL_WRITE)?;
    queue_pair.post_receive(1, &[inbox.slice(..)?])?;

    // The peer must know the window's steering tag: here it goes into the answer to its request.
    let listener = context.listen(address.parse()?, &ListenOptions::default())?;
    let request = listener.accept(None)?;
    request.accept(queue_pair, &window.stag().0.to_be_bytes())?;

    // When a message is here, everything that the peer wrote before it is in place.
    completions.wait_for(|completion| completion.id == 1, None)?;
    let mut length = [0; 8];
    inbox.read(0, &mut length)?;
    let mut text = vec![0; usize::try_from(u64::from_be_bytes(length))?.min(4096)];
    window.read(0, &mut text)?;
    queue_pair.disconnect(None)?;
    Ok(format!("my memory has: {}", String::from_utf8_lossy(&text)))
}

fn active(
    domain: &ProtectionDomain,
    completions: &CompletionQueue,
    queue_pair: &QueuePair,
    address: &str,
) -> Result<String, Box<dyn Error>> {
    let connection = queue_pair.connect(address.parse()?, &ConnectOptions::default())?;
    let stag = Stag(u32::from_be_bytes(connection.private_data[..].try_into()?));
    let window = RemoteMemory { stag, offset: 0 };

    // Write into the peer's memory, without its help; then send it the number of bytes.
    let text = b"hello from another process".to_vec();
    let length = text.len() as u64;
    let source = domain.register(text, Access::LOCAL_READ)?;
    queue_pair.post(WorkRequest::write(source.slice(..)?, window).id(1))?;
    queue_pair.post(WorkRequest::send_inline(&length.to_be_bytes())?.id(2))?;
    completions.wait_for(|completion| completion.id == 2, None)?;
    queue_pair.disconnect(None)?;
    Ok(format!("wrote {length} bytes into the memory of {}", connection.remote))
}
