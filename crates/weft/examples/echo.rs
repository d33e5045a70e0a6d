//! A copy to an echo server and back, by sockets over a NIC. On one machine:
//! ```text
//! cargo run --release --example echo
//! ```
//! On two, over Weft's own TCP (it needs CAP_NET_RAW; addresses that no kernel has), or with any TCP at either end:
//! ```text
//! cargo run --release --example echo -- serve 10.0.0.77:7 eth0=10.0.0.77/24
//! cargo run --release --example echo -- call 10.0.0.77:7 eth0=10.0.0.78/24
//! nc -N 10.0.0.77 7 < file
//! ```

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;

use weft::stream::{Stream, StreamListener};
use weft::verbs::{Context, Settings};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => here(),
        ["serve", address] => serve(&StreamListener::bind(&Context::open()?, address.parse()?)?),
        ["serve", address, link] => serve(&StreamListener::bind(&on(link)?, address.parse()?)?),
        ["call", address] => call(&Context::open()?, address.parse()?),
        ["call", address, link] => call(&on(link)?, address.parse()?),
        _ => Err("usage: echo [serve|call ADDRESS:PORT [INTERFACE=ADDRESS/BITS]]".into()),
    }
}

fn on(link: &str) -> Result<Context, Box<dyn Error>> {
    Ok(Context::with_link(Settings::default(), link.parse()?)?)
}

/// Both in one program.
fn here() -> Result<(), Box<dyn Error>> {
    let context = Context::open()?;
    let listener = StreamListener::bind(&context, "127.0.0.1:0".parse()?)?;
    let address = listener.local_address();
    thread::spawn(move || serve(&listener).map_err(|error| eprintln!("{error}")));
    call(&context, address)
}

fn serve(listener: &StreamListener) -> Result<(), Box<dyn Error>> {
    println!("echo at {}", listener.local_address());
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || match io::copy(&mut &stream, &mut &stream) {
            Ok(length) => println!("{}: {length} bytes", stream.peer_address()),
            Err(error) => println!("{}: {error}", stream.peer_address()),
        });
    }
    Ok(())
}

/// Writes and reads at the same time: an echo whose client does not read stops.
fn call(context: &Context, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let stream = Stream::connect(context, address)?;
    let bytes: Vec<u8> = (0..10_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut came = Vec::new();
    thread::scope(|scope| {
        let writes = scope.spawn(|| (&stream).write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write)));
        (&stream).read_to_end(&mut came)?;
        writes.join().map_err(|_| io::Error::other("the writer panicked"))?
    })?;
    if came != bytes {
        return Err("what came back differs".into());
    }
    println!("{} bytes came back from {}", came.len(), stream.peer_address());
    Ok(())
}
