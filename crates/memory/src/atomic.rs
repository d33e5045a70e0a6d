//! The arithmetic of RFC 7306 section 5.1, on values of the host.

/// An atomic operation on 64 bits. All values are in the byte order of the host: the codec converts, since the
/// operation is done in the byte order of the target's memory (RFC 7306 section 5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOperation {
    /// Adds, field by field (RFC 7306 section 5.1.1).
    FetchAdd {
        /// What is added.
        add: u64,
        /// A set bit is the highest bit of a field: its carry is dropped. 0 is one field of 64 bits.
        mask: u64,
    },
    /// Replaces the bits of `mask`.
    Swap {
        /// The new bits.
        swap: u64,
        /// Which bits are replaced.
        mask: u64,
    },
    /// Replaces the bits of `swap_mask` if those of `compare_mask` are as in `compare` (RFC 7306 section 5.1.2).
    CompareSwap {
        /// The new bits.
        swap: u64,
        /// Which bits are replaced.
        swap_mask: u64,
        /// What to compare with.
        compare: u64,
        /// Which bits are compared.
        compare_mask: u64,
    },
}

impl AtomicOperation {
    /// The value that the operation makes of `before`.
    #[must_use]
    pub const fn apply(self, before: u64) -> u64 {
        match self {
            Self::FetchAdd { add, mask } => add_fields(before, add, mask),
            Self::Swap { swap, mask } => replace(before, swap, mask),
            Self::CompareSwap { swap, swap_mask, compare, compare_mask } => {
                if (before ^ compare) & compare_mask == 0 {
                    replace(before, swap, swap_mask)
                } else {
                    before
                }
            }
        }
    }
}

/// The highest bits of the fields are added without carry, everything below them with: no carry can cross a field's
/// end.
const fn add_fields(before: u64, add: u64, highest_bits: u64) -> u64 {
    let below = (before & !highest_bits).wrapping_add(add & !highest_bits);
    below ^ ((before ^ add) & highest_bits)
}

const fn replace(before: u64, new: u64, mask: u64) -> u64 {
    (before & !mask) | (new & mask)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A ripple-carry adder, bit by bit, whose carry is cut at the marked bits.
    fn model_of_add(before: u64, add: u64, mask: u64) -> u64 {
        let (mut sum, mut carry) = (0, 0);
        for bit in 0..64 {
            let total = ((before >> bit) & 1) + ((add >> bit) & 1) + carry;
            sum |= (total & 1) << bit;
            carry = if (mask >> bit) & 1 == 1 { 0 } else { total >> 1 };
        }
        sum
    }

    proptest! {
        #[test]
        fn addition_is_that_of_the_model(before: u64, add: u64, mask: u64, thin: u64) {
            for mask in [mask, mask & thin, 0, u64::MAX, 1 << 63] {
                prop_assert_eq!(AtomicOperation::FetchAdd { add, mask }.apply(before), model_of_add(before, add, mask));
            }
        }

        #[test]
        fn a_swap_touches_only_its_mask(before: u64, swap: u64, mask: u64, compare: u64, compare_mask: u64) {
            let swapped = AtomicOperation::Swap { swap, mask }.apply(before);
            prop_assert_eq!(swapped & mask, swap & mask);
            prop_assert_eq!(swapped & !mask, before & !mask);
            let unequal = AtomicOperation::CompareSwap { swap, swap_mask: mask, compare, compare_mask }.apply(before);
            let equal = (before & compare_mask) == (compare & compare_mask);
            prop_assert_eq!(unequal, if equal { swapped } else { before });
            let same = AtomicOperation::CompareSwap { swap, swap_mask: mask, compare: before, compare_mask };
            prop_assert_eq!(same.apply(before), swapped);
        }
    }

    #[test]
    fn fields_do_not_carry_into_each_other() {
        let add = AtomicOperation::FetchAdd { add: 0x0000_0001_0000_0001, mask: 0x8000_0000_8000_0000 };
        assert_eq!(add.apply(0xffff_ffff_ffff_ffff), 0);
        let plain = AtomicOperation::FetchAdd { add: 1, mask: 0 };
        assert_eq!(plain.apply(0xffff_ffff), 0x1_0000_0000);
    }
}
