//! Recovery points on AArch64.

use core::arch::{global_asm, naked_asm};
use core::ffi::c_void;

use super::Point;

// The innermost recovery point of each thread. Static thread-local storage, since a signal handler may not allocate,
// as the first access to dynamic storage does.
global_asm!(
    r#"
    .section .tbss,"awT",@nobits
    .balign 8
    .globl weft_memory_guard_point
    .hidden weft_memory_guard_point
    .type weft_memory_guard_point, @object
    .size weft_memory_guard_point, 8
weft_memory_guard_point:
    .zero 8
    .text
"#
);

/// Calls `work` with `argument`, with a recovery point for faults in `start..end`.
///
/// # Safety
/// `work` may be called with `argument`, and may not return.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn call(
    work: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    start: usize,
    end: usize,
) {
    naked_asm!(
        // What a function must leave as it was.
        "stp x29, x30, [sp, #-16]!",
        "stp x27, x28, [sp, #-16]!",
        "stp x25, x26, [sp, #-16]!",
        "stp x23, x24, [sp, #-16]!",
        "stp x21, x22, [sp, #-16]!",
        "stp x19, x20, [sp, #-16]!",
        "stp d14, d15, [sp, #-16]!",
        "stp d12, d13, [sp, #-16]!",
        "stp d10, d11, [sp, #-16]!",
        "stp d8, d9, [sp, #-16]!",
        "mrs x9, tpidr_el0",
        "adrp x10, :gottprel:weft_memory_guard_point",
        "ldr x10, [x10, :gottprel_lo12:weft_memory_guard_point]",
        "add x9, x9, x10",
        "ldr x11, [x9]",
        // A `Point`, and a word that keeps the stack aligned.
        "stp x3, xzr, [sp, #-16]!",
        "stp x11, x2, [sp, #-16]!",
        "mov x11, sp",
        "str x11, [x9]",
        "mov x9, x0",
        "mov x0, x1",
        "blr x9",
        "b {leave}",
        leave = sym leave,
    )
}

/// Continues behind the call that made the recovery point at the stack's top: after its work, or in the middle of it.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave() {
    naked_asm!(
        "mrs x9, tpidr_el0",
        "adrp x10, :gottprel:weft_memory_guard_point",
        "ldr x10, [x10, :gottprel_lo12:weft_memory_guard_point]",
        "add x9, x9, x10",
        "ldr x11, [sp], #32",
        "str x11, [x9]",
        "ldp d8, d9, [sp], #16",
        "ldp d10, d11, [sp], #16",
        "ldp d12, d13, [sp], #16",
        "ldp d14, d15, [sp], #16",
        "ldp x19, x20, [sp], #16",
        "ldp x21, x22, [sp], #16",
        "ldp x23, x24, [sp], #16",
        "ldp x25, x26, [sp], #16",
        "ldp x27, x28, [sp], #16",
        "ldp x29, x30, [sp], #16",
        "ret",
    )
}

/// The innermost recovery point of this thread, or NULL.
pub(super) fn point() -> *mut Point {
    let point;
    // SAFETY: It reads a thread's own variable.
    unsafe {
        core::arch::asm!(
            "mrs {1}, tpidr_el0",
            "adrp {0}, :gottprel:weft_memory_guard_point",
            "ldr {0}, [{0}, :gottprel_lo12:weft_memory_guard_point]",
            "ldr {0}, [{0}, {1}]",
            out(reg) point,
            out(reg) _,
            options(nostack, preserves_flags, readonly),
        );
    }
    point
}

/// Has the interrupted thread continue at [`leave`], with the recovery point at its stack's top.
pub(super) fn resume(context: &mut libc::ucontext_t, point: *mut Point) {
    let leave: unsafe extern "C" fn() = leave;
    context.uc_mcontext.sp = point.expose_provenance() as u64;
    context.uc_mcontext.pc = leave as usize as u64;
}
