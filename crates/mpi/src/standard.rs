//! The standard ABI of MPI 5.0 (chapter 20): handles are pointers, and those of predefined objects are small numbers.

use weft::window::{Combine, Element};

use crate::abi::{Abi, Classes, Combiner, Family, Handle, Op};

/// Its constants (MPI 5.0 appendix A.3, as the `mpi_abi.h` of MPICH 5.0.2 has them).
pub(crate) const STANDARD: Abi = Abi {
    handle_bytes: 8,
    proc_null: -3,
    any_source: -1,
    any_tag: -2,
    no_precede: 2048,
    no_succeed: 16384,
    lock_exclusive: 301,
    lock_shared: 302,
    order_c: 12,
    thread_multiple: 4096,
    info_null: 0x130,
    byte: 0x247,
    comm_self: 0x102,
    comm_world: 0x101,
    classes: Classes { count: 2, kind: 3, rank: 6, op: 10, argument: 13, other: 16, sync: 50, range: 48 },
    family: Family::Standard,
};

/// How a derived datatype was made: `MPI_COMBINER_NAMED` and those behind it.
pub(crate) fn combiner(number: i32) -> Option<Combiner> {
    use Combiner as C;
    Some(match number {
        101 => C::Named,
        102 => C::Duplicate,
        103 => C::Contiguous,
        104 => C::Vector,
        105 => C::ByteVector,
        106 => C::Indexed,
        107 => C::ByteIndexed,
        108 => C::IndexedBlock,
        109 => C::ByteIndexedBlock,
        110 => C::Struct,
        111 => C::Subarray,
        116 => C::Resized,
        _ => return None,
    })
}

/// What elements of a predefined type are.
pub(crate) fn element(kind: Handle) -> Option<Element> {
    use Element as E;
    Some(match kind {
        0x243 | 0x244 | 0x240 | 0x2c0 | 0x2c1 => E::I8,
        0x207 | 0x21e | 0x238 | 0x239 | 0x241 | 0x245 | 0x247 => E::U8,
        0x208 | 0x248 | 0x2c8 | 0x2c9 => E::I16,
        0x20c | 0x249 => E::U16,
        0x209 | 0x218 | 0x219 | 0x23c | 0x250 | 0x2d0 | 0x2d1 => E::I32,
        0x20d | 0x251 => E::U32,
        0x201..=0x203 | 0x20a | 0x20b | 0x258 | 0x2d8 | 0x2d9 => E::I64,
        0x20e | 0x20f | 0x259 => E::U64,
        0x210 | 0x21a | 0x2d2 => E::F32,
        0x214 | 0x21c | 0x2da => E::F64,
        0x212 | 0x213 | 0x21b | 0x2db => E::ComplexF32,
        0x216 | 0x217 | 0x21d | 0x2e3 => E::ComplexF64,
        0x220 => E::LongDouble,
        0x224 | 0x225 => E::ComplexLongDouble,
        0x228 => E::F32AndI32,
        0x229 => E::F64AndI32,
        0x22a => E::I64AndI32,
        0x22b | 0x232 => E::I32AndI32,
        0x22c => E::I16AndI32,
        0x22d => E::LongDoubleAndI32,
        0x230 => E::F32AndF32,
        0x231 => E::F64AndF64,
        _ => return None,
    })
}

/// What a predefined operation does.
pub(crate) fn op(op: Handle) -> Option<Op> {
    Some(match op {
        0x21 => Op::Combine(Combine::Sum),
        0x22 => Op::Combine(Combine::Min),
        0x23 => Op::Combine(Combine::Max),
        0x24 => Op::Combine(Combine::Product),
        0x28 => Op::Combine(Combine::BitAnd),
        0x29 => Op::Combine(Combine::BitOr),
        0x2a => Op::Combine(Combine::BitXor),
        0x30 => Op::Combine(Combine::LogicalAnd),
        0x31 => Op::Combine(Combine::LogicalOr),
        0x32 => Op::Combine(Combine::LogicalXor),
        0x38 => Op::Locate(Combine::Min),
        0x39 => Op::Locate(Combine::Max),
        0x3c => Op::Replace,
        0x3d => Op::Nothing,
        _ => return None,
    })
}
