//! What differs among MPI libraries' C interfaces: how wide handles are, and what constants are.
//!
//! | | handles | where it is written |
//! |---|---|---|
//! | MPICH, Intel MPI | `int`; those of predefined types and operations are numbers | its `mpi.h`, 5.0.2 |
//! | Open MPI | pointers; those of predefined ones are the addresses of symbols | its `mpi.h`, 5.0.11 |
//! | the standard ABI of MPI 5.0 | pointers; those of predefined ones are small numbers | `standard` |

use core::ffi::{CStr, c_int};
use std::sync::OnceLock;

use weft::window::{Combine, Element};

use crate::standard::STANDARD;
use crate::{library, standard};

/// A handle of any kind, in a register: an `int` of MPICH in the lower half.
pub(crate) type Handle = usize;
/// MPI_Aint.
pub(crate) type Aint = isize;
/// MPI_Count.
pub(crate) type Count = i64;

/// How a derived datatype was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combiner {
    Named,
    Duplicate,
    Contiguous,
    Vector,
    ByteVector,
    Indexed,
    ByteIndexed,
    IndexedBlock,
    ByteIndexedBlock,
    Struct,
    Subarray,
    Resized,
}

/// What an `MPI_Op` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Replace,
    Nothing,
    Combine(Combine),
    /// MPI_MINLOC and MPI_MAXLOC: [`Combine::Min`] or [`Combine::Max`] of pairs.
    Locate(Combine),
}

/// The classes of errors that this library raises.
pub(crate) struct Classes {
    pub(crate) count: c_int,
    pub(crate) kind: c_int,
    pub(crate) rank: c_int,
    pub(crate) op: c_int,
    pub(crate) argument: c_int,
    pub(crate) other: c_int,
    pub(crate) sync: c_int,
    pub(crate) range: c_int,
}

/// Constants of a C interface.
pub(crate) struct Abi {
    pub(crate) handle_bytes: usize,
    pub(crate) proc_null: c_int,
    pub(crate) any_source: c_int,
    pub(crate) any_tag: c_int,
    pub(crate) no_precede: c_int,
    pub(crate) no_succeed: c_int,
    pub(crate) lock_exclusive: c_int,
    pub(crate) lock_shared: c_int,
    pub(crate) order_c: c_int,
    pub(crate) thread_multiple: c_int,
    pub(crate) info_null: Handle,
    pub(crate) byte: Handle,
    pub(crate) comm_self: Handle,
    pub(crate) comm_world: Handle,
    pub(crate) classes: Classes,
    pub(crate) family: Family,
}

/// Whose constants they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Mpich,
    OpenMpi,
    Standard,
    /// A later version of the standard ABI than Weft knows: the number.
    Later(c_int),
}

/// MPICH and Intel MPI.
const MPICH: Abi = Abi {
    handle_bytes: 4,
    proc_null: -1,
    any_source: -2,
    any_tag: -1,
    no_precede: 8192,
    no_succeed: 16384,
    lock_exclusive: 234,
    lock_shared: 235,
    order_c: 56,
    thread_multiple: 3,
    info_null: 0x1c00_0000,
    byte: 0x4c00_010d,
    comm_self: 0x4400_0001,
    comm_world: 0x4400_0000,
    classes: Classes { count: 2, kind: 3, rank: 6, op: 9, argument: 12, other: 15, sync: 50, range: 55 },
    family: Family::Mpich,
};

/// Open MPI. The handles are put in when it is found.
const OPEN_MPI: Abi = Abi {
    handle_bytes: 8,
    proc_null: -2,
    any_source: -1,
    any_tag: -1,
    no_precede: 2,
    no_succeed: 16,
    lock_exclusive: 1,
    lock_shared: 2,
    order_c: 0,
    thread_multiple: 3,
    info_null: 0,
    byte: 0,
    comm_self: 0,
    comm_world: 0,
    classes: Classes { count: 2, kind: 3, rank: 6, op: 10, argument: 13, other: 16, sync: 47, range: 68 },
    family: Family::OpenMpi,
};

/// The version of the standard ABI that `standard` has.
const STANDARD_VERSION: c_int = 1;

/// That of the library that the program has loaded.
pub(crate) fn abi() -> &'static Abi {
    static ABI: OnceLock<Abi> = OnceLock::new();
    ABI.get_or_init(|| {
        let symbol = |name: &CStr| library::find_data(name).map_or(0, |address| address as Handle);
        let byte = symbol(c"ompi_mpi_byte");
        if byte == 0 {
            return match library::abi_version() {
                None => MPICH,
                Some(STANDARD_VERSION) => STANDARD,
                Some(later) => Abi { family: Family::Later(later), ..STANDARD },
            };
        }
        let (comm_self, comm_world) = (symbol(c"ompi_mpi_comm_self"), symbol(c"ompi_mpi_comm_world"));
        Abi { byte, info_null: symbol(c"ompi_mpi_info_null"), comm_self, comm_world, ..OPEN_MPI }
    })
}

impl Abi {
    /// What the register of a handle says.
    pub(crate) fn handle(&self, register: Handle) -> Handle {
        if self.handle_bytes == 4 { register & 0xffff_ffff } else { register }
    }

    /// How a datatype was made; `None`: in a way of which nothing is known here.
    pub(crate) fn combiner(&self, number: c_int) -> Option<Combiner> {
        use Combiner as C;
        // Two count in the same order, Open MPI from 0; MPI_COMBINER_HINDEXED_BLOCK is behind the others.
        let number = match self.family {
            Family::Mpich => number,
            Family::OpenMpi => number + 1,
            Family::Standard | Family::Later(_) => return standard::combiner(number),
        };
        Some(match number {
            1 => C::Named,
            2 => C::Duplicate,
            3 => C::Contiguous,
            4 => C::Vector,
            5 | 6 => C::ByteVector,
            7 => C::Indexed,
            8 | 9 => C::ByteIndexed,
            10 => C::IndexedBlock,
            11 | 12 => C::Struct,
            13 => C::Subarray,
            18 => C::Resized,
            19 => C::ByteIndexedBlock,
            _ => return None,
        })
    }

    /// What elements of a predefined type are for Weft, if it has such.
    pub(crate) fn element(&self, kind: Handle) -> Option<Element> {
        if matches!(self.family, Family::Standard | Family::Later(_)) {
            return standard::element(kind);
        }
        if self.family == Family::OpenMpi {
            return element_by_name(library::name_of(kind)?.to_str().ok()?.strip_prefix("ompi_mpi_")?);
        }
        if let Some(number) = kind.checked_sub(0x8c00_0000) {
            return pair_by_number(number);
        }
        let (size, number) = (kind >> 8 & 0xff, kind & 0xff);
        // 0x4c: a predefined type, with its size in the second byte.
        (kind >> 16 == 0x4c00).then(|| element_by_number(number))?.filter(|element| element.size() == size)
    }

    /// What an operation does, if it is one that Weft has.
    pub(crate) fn op(&self, op: Handle) -> Option<Op> {
        if matches!(self.family, Family::Standard | Family::Later(_)) {
            return standard::op(op);
        }
        if self.family == Family::OpenMpi {
            return op_by_name(library::name_of(op)?.to_str().ok()?.strip_prefix("ompi_mpi_op_")?);
        }
        Some(match op.checked_sub(0x5800_0000)? {
            1 => Op::Combine(Combine::Max),
            2 => Op::Combine(Combine::Min),
            3 => Op::Combine(Combine::Sum),
            4 => Op::Combine(Combine::Product),
            5 => Op::Combine(Combine::LogicalAnd),
            6 => Op::Combine(Combine::BitAnd),
            7 => Op::Combine(Combine::LogicalOr),
            8 => Op::Combine(Combine::BitOr),
            9 => Op::Combine(Combine::LogicalXor),
            10 => Op::Combine(Combine::BitXor),
            11 => Op::Locate(Combine::Min),
            12 => Op::Locate(Combine::Max),
            13 => Op::Replace,
            14 => Op::Nothing,
            _ => return None,
        })
    }
}

/// Of MPICH's `mpi.h`: the last byte of `MPI_CHAR`, `MPI_UNSIGNED_CHAR` and so on.
fn element_by_number(number: usize) -> Option<Element> {
    use Element as E;
    Some(match number {
        0x01 | 0x18 | 0x2d | 0x37 | 0x47 => E::I8,
        0x02 | 0x0d | 0x0f | 0x1a | 0x33 | 0x3b | 0x3f => E::U8,
        0x03 | 0x2f | 0x38 | 0x48 => E::I16,
        0x04 | 0x3c => E::U16,
        0x05 | 0x0e | 0x1b | 0x1d | 0x30 | 0x39 | 0x49 => E::I32,
        0x06 | 0x3d => E::U32,
        0x07 | 0x09 | 0x31 | 0x3a | 0x43 | 0x44 | 0x45 | 0x4a => E::I64,
        0x08 | 0x19 | 0x3e => E::U64,
        0x0a | 0x1c | 0x27 => E::F32,
        0x0b | 0x1f | 0x29 => E::F64,
        0x1e | 0x28 | 0x34 | 0x40 => E::ComplexF32,
        0x22 | 0x2a | 0x35 | 0x41 => E::ComplexF64,
        0x0c => E::LongDouble,
        0x16 | 0x20 => E::I32AndI32,
        0x21 => E::F32AndF32,
        0x23 => E::F64AndF64,
        0x36 | 0x42 => E::ComplexLongDouble,
        _ => return None,
    })
}

/// Of MPICH's `mpi.h`: `MPI_FLOAT_INT` and those behind it.
fn pair_by_number(number: usize) -> Option<Element> {
    use Element as E;
    [E::F32AndI32, E::F64AndI32, E::I64AndI32, E::I16AndI32, E::LongDoubleAndI32].get(number).copied()
}

fn element_by_name(name: &str) -> Option<Element> {
    use Element as E;
    Some(match name {
        "char" | "signed_char" | "int8_t" | "integer1" | "logical1" => E::I8,
        "unsigned_char" | "byte" | "packed" | "character" | "uint8_t" | "c_bool" | "cxx_bool" => E::U8,
        "short" | "int16_t" | "integer2" | "logical2" => E::I16,
        "unsigned_short" | "uint16_t" => E::U16,
        "int" | "int32_t" | "integer" | "integer4" | "logical" | "logical4" | "wchar" => E::I32,
        "unsigned" | "uint32_t" => E::U32,
        "long" | "long_long_int" | "int64_t" | "integer8" | "logical8" | "aint" | "offset" | "count" => E::I64,
        "unsigned_long" | "unsigned_long_long" | "uint64_t" => E::U64,
        "float" | "real" | "real4" => E::F32,
        "double" | "dblprec" | "real8" => E::F64,
        "cplex" | "complex8" | "c_float_complex" | "c_complex" | "cxx_cplex" => E::ComplexF32,
        "dblcplex" | "complex16" | "c_double_complex" | "cxx_dblcplex" => E::ComplexF64,
        "long_double" => E::LongDouble,
        "c_long_double_complex" | "cxx_ldblcplex" => E::ComplexLongDouble,
        "2int" | "2integer" => E::I32AndI32,
        "2real" => E::F32AndF32,
        "2dblprec" => E::F64AndF64,
        "float_int" => E::F32AndI32,
        "double_int" => E::F64AndI32,
        "long_int" => E::I64AndI32,
        "short_int" => E::I16AndI32,
        "longdbl_int" => E::LongDoubleAndI32,
        _ => return None,
    })
}

fn op_by_name(name: &str) -> Option<Op> {
    Some(match name {
        "max" => Op::Combine(Combine::Max),
        "min" => Op::Combine(Combine::Min),
        "sum" => Op::Combine(Combine::Sum),
        "prod" => Op::Combine(Combine::Product),
        "land" => Op::Combine(Combine::LogicalAnd),
        "band" => Op::Combine(Combine::BitAnd),
        "lor" => Op::Combine(Combine::LogicalOr),
        "bor" => Op::Combine(Combine::BitOr),
        "lxor" => Op::Combine(Combine::LogicalXor),
        "bxor" => Op::Combine(Combine::BitXor),
        "minloc" => Op::Locate(Combine::Min),
        "maxloc" => Op::Locate(Combine::Max),
        "replace" => Op::Replace,
        "no_op" => Op::Nothing,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_mpich_are_those_of_its_header() {
        let kinds = [
            (0x4c00_0101, Some(Element::I8)),
            (0x4c00_010d, Some(Element::U8)),
            (0x4c00_0405, Some(Element::I32)),
            (0x4c00_080b, Some(Element::F64)),
            (0x4c00_0840, Some(Element::ComplexF32)),
            (0x4c00_1041, Some(Element::ComplexF64)),
            // MPI_LONG_DOUBLE, MPI_2INT, MPI_DOUBLE_INT, MPI_LONG_DOUBLE_INT.
            (0x4c00_100c, Some(Element::LongDouble)),
            (0x4c00_0816, Some(Element::I32AndI32)),
            (0x8c00_0001, Some(Element::F64AndI32)),
            (0x8c00_0004, Some(Element::LongDoubleAndI32)),
            // One behind the last pair, a derived type, and one that says it is as large as no `int` is.
            (0x8c00_0005, None),
            (0xcc00_0001, None),
            (0x4c00_0805, None),
        ];
        for (kind, element) in kinds {
            assert_eq!(MPICH.element(kind), element, "{kind:x}");
        }
        assert_eq!(MPICH.op(0x5800_0003), Some(Op::Combine(Combine::Sum)));
        assert_eq!(MPICH.op(0x5800_000d), Some(Op::Replace));
        assert_eq!(MPICH.op(0x5800_000c), Some(Op::Locate(Combine::Max)));
        // One that the program has made.
        assert_eq!(MPICH.op(0x9800_0000), None);
    }

    #[test]
    fn a_handle_of_mpich_is_the_lower_half_of_a_register() {
        assert_eq!(MPICH.handle(0xdead_beef_a000_0000), 0xa000_0000);
        assert_eq!(OPEN_MPI.handle(0xdead_beef_a000_0000), 0xdead_beef_a000_0000);
    }

    #[test]
    fn open_mpi_counts_combiners_from_0() {
        assert_eq!((MPICH.combiner(1), OPEN_MPI.combiner(0)), (Some(Combiner::Named), Some(Combiner::Named)));
        assert_eq!((MPICH.combiner(18), OPEN_MPI.combiner(17)), (Some(Combiner::Resized), Some(Combiner::Resized)));
        // MPI_COMBINER_DARRAY.
        assert_eq!((MPICH.combiner(14), OPEN_MPI.combiner(13)), (None, None));
    }

    #[test]
    fn the_numbers_of_the_standard_are_those_of_its_header() {
        for (kind, element) in [
            (0x209, Some(Element::I32)),
            (0x247, Some(Element::U8)),
            (0x214, Some(Element::F64)),
            (0x22a, Some(Element::I64AndI32)),
            // MPI_DATATYPE_NULL, MPI_REAL2, and a derived type.
            (0x200, None),
            (0x2ca, None),
            (0x5555_0000_1234, None),
        ] {
            assert_eq!(STANDARD.element(kind), element, "{kind:x}");
        }
        assert_eq!((STANDARD.op(0x21), STANDARD.op(0x20)), (Some(Op::Combine(Combine::Sum)), None));
        assert_eq!((STANDARD.combiner(101), STANDARD.combiner(116)), (Some(Combiner::Named), Some(Combiner::Resized)));
        // MPI_COMBINER_DARRAY.
        assert_eq!(STANDARD.combiner(112), None);
    }
}
