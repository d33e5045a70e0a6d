//! Recovery points on x86-64.

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
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        // A `Point`, from its last field on.
        "push rcx",
        "push rdx",
        "mov rax, qword ptr [rip + weft_memory_guard_point@GOTTPOFF]",
        "push qword ptr fs:[rax]",
        "mov qword ptr fs:[rax], rsp",
        // 9 words and the return address: the stack is aligned to 16.
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "jmp {leave}",
        leave = sym leave,
    )
}

/// Continues behind the call that made the recovery point at the stack's top: after its work, or in the middle of it.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave() {
    naked_asm!(
        "mov rax, qword ptr [rip + weft_memory_guard_point@GOTTPOFF]",
        "pop qword ptr fs:[rax]",
        "add rsp, 16",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// The innermost recovery point of this thread, or NULL.
pub(super) fn point() -> *mut Point {
    let point;
    // SAFETY: It reads a thread's own variable.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + weft_memory_guard_point@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) point,
            options(nostack, preserves_flags, readonly),
        );
    }
    point
}

/// Has the interrupted thread continue at [`leave`], with the recovery point at its stack's top.
pub(super) fn resume(context: &mut libc::ucontext_t, point: *mut Point) {
    let leave: unsafe extern "C" fn() = leave;
    context.uc_mcontext.gregs[libc::REG_RSP as usize] = point.expose_provenance() as i64;
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = leave as usize as i64;
}
