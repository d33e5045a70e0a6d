//! `weft figures`: measures what the catalogue lists, or draws what was measured before, as charts and as one page.

pub(crate) mod catalogue;
mod claims;
pub(crate) mod folder;
pub(crate) mod measure;
pub(crate) mod run;
