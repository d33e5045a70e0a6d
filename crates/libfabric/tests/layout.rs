//! The structures of `abi` against the C headers, when a compiler and the headers (libfabric-dev) are installed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use weft_libfabric::abi::*;

/// What one line of the C program must print.
struct Expectation {
    /// A C expression that is an integer constant.
    expression: String,
    value: u64,
    /// The version of the headers that brought it, as one word (`major << 16 | minor`).
    since: u32,
}

/// Fields that libfabric 1.17 does not have.
const NEWER: [&str; 12] = [
    "fi_ep_attr.xpu_ctx",
    "fi_domain_attr.max_ep_auth_key",
    "fi_domain_attr.max_group_id",
    "fi_domain_attr.max_cntr_value",
    "fi_domain_attr.max_err_cntr_value",
    "fi_domain_attr.max_xpu_ctx_cnt",
    "fi_ops_av.insert_auth_key",
    "fi_ops_av.lookup_auth_key",
    "fi_ops_av.set_user_id",
    "fi_ops_av.lookup2",
    "fi_cq_attr.xpu_ctx",
    "fi_cq_err_entry.src_addr",
];
const NEWER_TABLES: [&str; 3] = ["fi_ops_domain.xpu_ctx", "fi_ops_ep.export_xpu", "fi_ops_cq.export_xpu"];

/// The offset of each field; the size too where the structure has not grown since 1.17.
macro_rules! structure {
    ($list:ident, $name:ident { $($field:ident $(as $c_field:literal)?),* $(,)? }) => {
        let mut grown = false;
        $(
            let field = stringify!($field).trim_start_matches("r#");
            let path = concat!(stringify!($name), ".");
            let path = format!("{path}{field}");
            if NEWER.contains(&path.as_str()) || NEWER_TABLES.contains(&path.as_str()) {
                grown = true;
            } else {
                $list.push(Expectation {
                    expression: format!("offsetof(struct {}, {field})", stringify!($name)),
                    value: core::mem::offset_of!($name, $field) as u64,
                    since: 0,
                });
            }
        )*
        $list.push(Expectation {
            expression: format!("sizeof(struct {})", stringify!($name)),
            value: core::mem::size_of::<$name>() as u64,
            // The grown ones are laid out as in 2.6.
            since: if grown { 2 << 16 | 6 } else { 0 },
        });
    };
}

macro_rules! constants {
    ($list:ident, $($name:ident),* $(,)?) => {
        $($list.push(Expectation { expression: stringify!($name).into(), value: $name as u64, since: 0 });)*
    };
}

fn expectations() -> Vec<Expectation> {
    let mut list = Vec::new();
    structure!(
        list,
        fi_tx_attr { caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit, rma_iov_limit, tclass }
    );
    structure!(list, fi_rx_attr { caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit });
    structure!(
        list,
        fi_ep_attr {
            r#type,
            protocol,
            protocol_version,
            max_msg_size,
            msg_prefix_size,
            max_order_raw_size,
            max_order_war_size,
            max_order_waw_size,
            mem_tag_format,
            tx_ctx_cnt,
            rx_ctx_cnt,
            auth_key_size,
            auth_key,
            xpu_ctx,
        }
    );
    structure!(
        list,
        fi_domain_attr {
            domain,
            name,
            threading,
            control_progress,
            data_progress,
            resource_mgmt,
            av_type,
            mr_mode,
            mr_key_size,
            cq_data_size,
            cq_cnt,
            ep_cnt,
            tx_ctx_cnt,
            rx_ctx_cnt,
            max_ep_tx_ctx,
            max_ep_rx_ctx,
            max_ep_stx_ctx,
            max_ep_srx_ctx,
            cntr_cnt,
            mr_iov_limit,
            caps,
            mode,
            auth_key,
            auth_key_size,
            max_err_data,
            mr_cnt,
            tclass,
            max_ep_auth_key,
            max_group_id,
            max_cntr_value,
            max_err_cntr_value,
            max_xpu_ctx_cnt,
        }
    );
    structure!(list, fi_fabric_attr { fabric, name, prov_name, prov_version, api_version });
    structure!(
        list,
        fi_info {
            next,
            caps,
            mode,
            addr_format,
            src_addrlen,
            dest_addrlen,
            src_addr,
            dest_addr,
            handle,
            tx_attr,
            rx_attr,
            ep_attr,
            domain_attr,
            fabric_attr,
            nic,
        }
    );
    structure!(list, fid { fclass, context, ops });
    structure!(list, fi_ops { size, close, bind, control, ops_open, tostr, ops_set });
    structure!(list, fid_fabric { fid, ops, api_version });
    structure!(list, fi_ops_fabric { size, domain, passive_ep, eq_open, wait_open, trywait, domain2 });
    structure!(list, fi_context { internal });
    structure!(list, fi_context2 { internal });
    structure!(list, fi_av_attr { r#type, rx_ctx_bits, count, ep_per_node, name, map_addr, flags });
    structure!(list, fid_av { fid, ops });
    structure!(
        list,
        fi_ops_av {
            size,
            insert,
            insertsvc,
            insertsym,
            remove,
            lookup,
            straddr,
            av_set,
            insert_auth_key,
            lookup_auth_key,
            set_user_id,
            lookup2,
        }
    );
    structure!(list, fid_domain { fid, ops, mr });
    structure!(
        list,
        fi_ops_domain {
            size,
            av_open,
            cq_open,
            endpoint,
            scalable_ep,
            cntr_open,
            poll_open,
            stx_ctx,
            srx_ctx,
            query_atomic,
            query_collective,
            endpoint2,
            xpu_ctx,
        }
    );
    structure!(list, fid_ep { fid, ops, cm, msg, rma, tagged, atomic, collective });
    structure!(
        list,
        fi_ops_ep { size, cancel, getopt, setopt, tx_ctx, rx_ctx, rx_size_left, tx_size_left, export_xpu }
    );
    structure!(list, fi_ops_cm { size, setname, getname, getpeer, connect, listen, accept, reject, shutdown, join });
    structure!(list, fi_msg_tagged { msg_iov, desc, iov_count, addr, tag, ignore, context, data });
    structure!(list, fi_ops_tagged { size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata });
    structure!(list, fi_cq_attr { size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set, xpu_ctx });
    structure!(list, fi_cq_tagged_entry { op_context, flags, len, buf, data, tag });
    structure!(
        list,
        fi_cq_err_entry {
            op_context,
            flags,
            len,
            buf,
            data,
            tag,
            olen,
            err,
            prov_errno,
            err_data,
            err_data_size,
            src_addr,
        }
    );
    structure!(list, fid_cq { fid, ops });
    structure!(list, fi_ops_cq { size, read, readfrom, readerr, sread, sreadfrom, signal, strerror, export_xpu });
    use weft_libfabric::abi::errno::{FI_EAGAIN, FI_EAVAIL, FI_ENODATA, FI_EOTHER};
    constants!(
        list,
        FI_MSG,
        FI_TAGGED,
        FI_RECV,
        FI_SEND,
        FI_TRANSMIT,
        FI_SOURCE,
        FI_CONTEXT,
        FI_CONTEXT2,
        FI_AV_UNSPEC,
        FI_AV_MAP,
        FI_AV_TABLE,
        FI_PROGRESS_UNSPEC,
        FI_PROGRESS_MANUAL,
        FI_THREAD_DOMAIN,
        FI_RM_ENABLED,
        FI_EP_RDM,
        FI_ENABLE,
        FI_WAIT_NONE,
        FI_CQ_FORMAT_TAGGED,
        FI_CQ_COND_NONE,
        FI_EAGAIN,
        FI_EAVAIL,
        FI_ENODATA,
        FI_EOTHER,
    );
    list
}

/// A program that prints each expression's value, or `-` where the headers are too old for it.
fn program(expectations: &[Expectation]) -> String {
    let mut text = String::from(
        "#include <stdio.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n#include <rdma/fi_endpoint.h>\n\
         #include <rdma/fi_cm.h>\n#include <rdma/fi_tagged.h>\n#include <rdma/fi_eq.h>\n#include <rdma/fi_errno.h>\n\
         int main(void) {\n",
    );
    for Expectation { expression, since, .. } in expectations {
        writeln!(
            text,
            "#if (FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION) >= {since}\n\
             printf(\"%llu\\n\", (unsigned long long)({expression}));\n#else\nputs(\"-\");\n#endif"
        )
        .unwrap();
    }
    text.push_str("return 0; }\n");
    text
}

/// The printed lines, or why there are none.
fn compile_and_run(program: &str, folder: &Path) -> Result<Vec<String>, String> {
    if !["/usr/include", "/usr/local/include"].iter().any(|at| Path::new(at).join("rdma/fabric.h").exists()) {
        return Err("no rdma/fabric.h: install libfabric-dev".into());
    }
    let source = folder.join("layout.c");
    let binary = folder.join("layout");
    std::fs::write(&source, program).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = match Command::new(&compiler).arg("-o").arg(&binary).arg(&source).output() {
        Ok(output) => output,
        Err(error) => return Err(format!("no C compiler {compiler:?} ({error})")),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&binary).output().unwrap();
    Ok(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn structures_and_constants_are_those_of_the_headers() {
    let expectations = expectations();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let lines = match compile_and_run(&program(&expectations), &folder) {
        Ok(lines) => lines,
        Err(reason) => return println!("skipped: {reason}"),
    };
    assert_eq!(lines.len(), expectations.len());
    let wrong: Vec<_> = expectations
        .iter()
        .zip(&lines)
        .filter(|(expected, line)| *line != "-" && **line != expected.value.to_string())
        .map(|(expected, line)| format!("{}: {} here, {line} in C", expected.expression, expected.value))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sizes of libfabric 2.6, whose headers no package brings yet.
#[test]
fn grown_structures_have_their_newest_size() {
    assert_eq!(core::mem::size_of::<fi_domain_attr>(), 232);
    assert_eq!(core::mem::size_of::<fi_ep_attr>(), 104);
    assert_eq!(core::mem::size_of::<fi_cq_attr>(), 48);
    assert_eq!(core::mem::size_of::<fi_cq_err_entry>(), 88);
    assert_eq!(core::mem::size_of::<fi_ops_av>(), 96);
    assert_eq!(core::mem::size_of::<fi_ops_domain>(), 104);
    assert_eq!(core::mem::size_of::<fi_ops_ep>(), 72);
    assert_eq!(core::mem::size_of::<fi_ops_cq>(), 72);
}
