//! What a network does to packets over time, as people write it.
//!
//! [`Conditions`] are what one direction does at a time: keys with values, the same in a file as among the options of a
//! command. A [`Scenario`] has those of both directions, and how they change. It makes links of `weft-emulate`, so that
//! the simulator and a tool in front of real traffic do the same to the same packets when they read the same file.
//!
//! ```
//! use weft_scenario::{Direction, Scenario};
//!
//! let text = r#"
//! seed = 7
//! [both]
//! delay = "4ms"
//! loss = 0.5
//! [reverse]
//! rate = "10M"
//! [[step]]
//! at = "10s"
//! forward.delay = "40ms"
//! "#;
//! let scenario = Scenario::parse(text, |_| Err("no files here".to_owned())).unwrap();
//! assert_eq!(scenario.conditions(Direction::Forward).delay.as_millis(), 4);
//! let error = Scenario::parse("[both]\ndleay = \"4ms\"\n", |_| Err(String::new())).unwrap_err();
//! assert!(error.to_string().starts_with("line 2: there is no key \"dleay\" in [both]"));
//! ```
#![forbid(unsafe_code)]

mod conditions;
mod error;
mod keys;
mod reader;
mod scenario;
mod units;

pub use conditions::{BURST, Conditions, DELAY, FLIPS, Gilbert, MTU, QUEUE, RATE};
pub use error::ScenarioError;
pub use keys::{Files, KEYS};
pub use reader::{LONGEST_SCENARIO, STEPS, TEXT_BYTES};
pub use scenario::{Direction, Scenario};
pub use units::{BitsPerSecond, Percent, Time};
