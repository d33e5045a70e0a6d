//! What an element has at some of its bytes.

/// Bytes of the longest element.
pub(super) const MOST: usize = 32;

pub(super) type Bytes = [u8; MOST];

/// What an element has at some of its bytes.
pub(super) trait Part: Sized {
    fn at(bytes: &Bytes, offset: usize) -> Self;
}

macro_rules! parts {
    ($($kind:ty)*) => { $(
        impl Part for $kind {
            fn at(bytes: &Bytes, offset: usize) -> Self {
                let mut own = [0; size_of::<$kind>()];
                own.copy_from_slice(&bytes[offset..offset + size_of::<$kind>()]);
                Self::from_ne_bytes(own)
            }
        }
    )* };
}

parts!(u16 u32 u64 i16 i32 i64 f32 f64);
