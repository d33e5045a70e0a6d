//! The program of `docs/programs.md`, run: both of its processes, as threads.
use std::net::TcpListener;
use std::thread;

#[expect(dead_code, reason = "its `main` reads the command line")]
#[path = "../../examples/hello.rs"]
mod example;

#[test]
fn the_text_arrives() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let address = free.clone();
    let passive = thread::spawn(move || example::hello("listen", &address).map_err(|error| error.to_string()));
    let wrote = loop {
        match example::hello("connect", &free) {
            // It does not listen yet, or never will.
            Err(_) if !passive.is_finished() => thread::yield_now(),
            result => break result,
        }
    };
    assert_eq!(passive.join().unwrap().unwrap(), "my memory has: hello from another process");
    assert_eq!(wrote.unwrap(), format!("wrote 26 bytes into the memory of {free}"));
}
