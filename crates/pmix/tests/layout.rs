//! The structures of `abi` against the C headers, when a compiler and the headers (libpmix-dev) are installed.

use core::mem::{offset_of, size_of};
use std::process::Command;
use std::{env, fs, process};

use weft_pmix::abi::*;

#[test]
fn structures_and_constants_are_those_of_the_headers() {
    let checks = [
        ("sizeof(pmix_proc_t)", size_of::<Proc>() as u64),
        ("offsetof(pmix_proc_t, rank)", offset_of!(Proc, rank) as u64),
        ("sizeof(pmix_byte_object_t)", size_of::<ByteObject>() as u64),
        ("offsetof(pmix_byte_object_t, size)", offset_of!(ByteObject, size) as u64),
        ("sizeof(pmix_value_t)", size_of::<Value>() as u64),
        ("offsetof(pmix_value_t, data)", offset_of!(Value, data) as u64),
        ("sizeof(((pmix_value_t *)0)->type)", size_of::<u16>() as u64),
        ("sizeof(pmix_info_t)", size_of::<Info>() as u64),
        ("offsetof(pmix_info_t, flags)", offset_of!(Info, flags) as u64),
        ("offsetof(pmix_info_t, value)", offset_of!(Info, value) as u64),
        ("sizeof(pmix_status_t)", size_of::<core::ffi::c_int>() as u64),
        ("sizeof(pmix_scope_t)", size_of::<u8>() as u64),
        ("PMIX_SUCCESS", SUCCESS as u64),
        ("(pmix_rank_t)(PMIX_RANK_WILDCARD)", u64::from(RANK_WILDCARD)),
        ("PMIX_GLOBAL", u64::from(GLOBAL)),
        ("PMIX_BOOL", u64::from(BOOL)),
        ("PMIX_INT", u64::from(INT)),
        ("PMIX_UINT32", u64::from(UINT32)),
        ("PMIX_BYTE_OBJECT", u64::from(BYTE_OBJECT)),
    ];
    let lines: String =
        checks.iter().map(|(c, value)| format!("_Static_assert({c} == {value}u, \"{c}\");\n")).collect();
    let keys = r#"char size[] = PMIX_JOB_SIZE, collect[] = PMIX_COLLECT_DATA, timeout[] = PMIX_TIMEOUT;
        _Static_assert(sizeof PMIX_JOB_SIZE == sizeof "pmix.job.size", "key");
        _Static_assert(sizeof PMIX_COLLECT_DATA == sizeof "pmix.collect", "key");
        _Static_assert(sizeof PMIX_TIMEOUT == sizeof "pmix.timeout", "key");"#;
    let file = env::temp_dir().join(format!("weft-pmix-layout-{}.c", process::id()));
    fs::write(&file, format!("#include <stddef.h>\n#include <pmix.h>\n{lines}{keys}\n")).unwrap();
    let compile = |text: &str| {
        let folders = ["/usr/lib/x86_64-linux-gnu/pmix2/include", "/usr/lib/aarch64-linux-gnu/pmix2/include"];
        let includes = folders.iter().flat_map(|folder| ["-I", folder]);
        Command::new("cc").args(["-x", "c", "-fsyntax-only"]).args(includes).arg(text).output()
    };
    let headers = env::temp_dir().join(format!("weft-pmix-headers-{}.c", process::id()));
    fs::write(&headers, "#include <pmix.h>\n").unwrap();
    let is_there = compile(&headers.to_string_lossy()).is_ok_and(|output| output.status.success());
    let output = compile(&file.to_string_lossy());
    let _ = (fs::remove_file(&headers), fs::remove_file(&file));
    if !is_there {
        println!("skipped: no C compiler, or no pmix.h; on Debian: apt install libpmix-dev");
        return;
    }
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
