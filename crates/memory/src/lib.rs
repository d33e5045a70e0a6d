//! Protection domains, memory regions, STags, rights and bounds: the one place that turns a Slice into bytes.
