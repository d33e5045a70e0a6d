//! `FI_WEFT_*`, as the library `weft` reads it.

use std::sync::Once;

pub(crate) use weft::settings::Parameters;
use weft::settings::{Wrong, notes};

use crate::stderr;

/// The settings in the environment. The first call reports what a user should know about them besides errors.
///
/// # Errors
/// The first variable with an invalid value.
pub(crate) fn get() -> Result<&'static Parameters, &'static Wrong> {
    static NOTED: Once = Once::new();
    let parameters = weft::settings::get()?;
    NOTED.call_once(|| notes().iter().for_each(|note| stderr::complain(&note.to_string())));
    Ok(parameters)
}
