//! For tests: forbids system calls (seccomp(2)).

/// From now on these system calls fail with EPERM in this thread, and in threads that it starts.
pub(crate) fn forbid(calls: &[libc::c_long]) {
    let step =
        |code: u32, jump_true, jump_false, k| libc::sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k };
    // The number of the call is the first word of a filter's data.
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (at, call) in calls.iter().enumerate() {
        let to_refusal = (calls.len() - at) as u8;
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ, to_refusal, 0, *call as u32));
    }
    program.push(step(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(step(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: The program is read during the second call alone; both are about this thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}
