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
const NEWER: [&str; 17] = [
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
    "fi_mr_attr.hmem_data",
    "fi_mr_attr.page_size",
    "fi_mr_attr.base_mr",
    "fi_mr_attr.sub_mr_cnt",
    "fi_cntr_attr.xpu_ctx",
];
const NEWER_TABLES: [&str; 4] =
    ["fi_ops_domain.xpu_ctx", "fi_ops_ep.export_xpu", "fi_ops_cq.export_xpu", "fi_ops_cntr.export_xpu"];

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
    ($list:ident: $($name:ident)*) => { constants! { since 0, $list: $($name)* } };
    (since $since:expr, $list:ident: $($name:ident)*) => {
        $($list.push(Expectation { expression: stringify!($name).into(), value: $name as u64, since: $since });)*
    };
}

fn expectations() -> Vec<Expectation> {
    let mut list = Vec::new();
    fabric(&mut list);
    domain(&mut list);
    endpoint(&mut list);
    one_sided(&mut list);
    collective(&mut list);
    queues(&mut list);
    provider(&mut list);
    errors(&mut list);
    list
}

/// `rdma/fabric.h`.
fn fabric(list: &mut Vec<Expectation>) {
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
    structure!(list, fi_alias { fid, flags });
    structure!(list, fi_mr_raw_attr { flags, base_addr, raw_key, key_size });
    structure!(list, fi_mr_map_raw { flags, base_addr, raw_key, key_size, key });
    capabilities(list);
    kinds(list);
}

/// Capabilities, flags and modes.
fn capabilities(list: &mut Vec<Expectation>) {
    constants! {
        list:
        FI_MSG FI_RMA FI_TAGGED FI_ATOMIC FI_MULTICAST FI_COLLECTIVE FI_READ FI_WRITE FI_RECV FI_SEND FI_TRANSMIT
        FI_REMOTE_READ FI_REMOTE_WRITE FI_MULTI_RECV FI_REMOTE_CQ_DATA FI_MORE FI_PEEK FI_TRIGGER FI_FENCE FI_COMPLETION
        FI_EVENT FI_INJECT FI_INJECT_COMPLETE FI_TRANSMIT_COMPLETE FI_DELIVERY_COMPLETE FI_AFFINITY FI_COMMIT_COMPLETE
        FI_MATCH_COMPLETE FI_PEER_TRANSFER FI_AV_USER_ID FI_HMEM FI_RMA_PMEM FI_SOURCE_ERR FI_LOCAL_COMM FI_REMOTE_COMM
        FI_SHARED_AV FI_PROV_ATTR_ONLY FI_NUMERICHOST FI_RMA_EVENT FI_SOURCE FI_NAMED_RX_CTX FI_DIRECTED_RECV FI_CLAIM
        FI_DISCARD FI_SELECTIVE_COMPLETION FI_CONTEXT FI_CONTEXT2 FI_MSG_PREFIX FI_ASYNC_IOV FI_RX_CQ_DATA FI_LOCAL_MR
        FI_SYMMETRIC FI_SYNC_ERR FI_UNIVERSE FI_FETCH_ATOMIC FI_COMPARE_ATOMIC
    }
    constants! {
        since NEWEST_VERSION, list:
        FI_RESCAN FI_PEER FI_XPU FI_TAGGED_DIRECTED_RECV FI_TAGGED_MULTI_RECV FI_EXACT_DIRECTED_RECV FI_MR_DMABUF
        FI_SOCKADDR_IP FI_PROGRESS_CONTROL_UNIFIED FI_CNTR_EVENTS_BYTES FI_OPT_CUDA_API_PERMITTED
        FI_OPT_SHARED_MEMORY_PERMITTED FI_OPT_MAX_MSG_SIZE FI_OPT_MAX_TAGGED_SIZE FI_OPT_MAX_RMA_SIZE
        FI_OPT_MAX_ATOMIC_SIZE FI_OPT_INJECT_MSG_SIZE FI_OPT_INJECT_TAGGED_SIZE FI_OPT_INJECT_RMA_SIZE
        FI_OPT_INJECT_ATOMIC_SIZE
    }
}

/// Enumerations.
fn kinds(list: &mut Vec<Expectation>) {
    constants! {
        list:
        FI_FORMAT_UNSPEC FI_SOCKADDR FI_SOCKADDR_IN FI_SOCKADDR_IN6 FI_ADDR_STR FI_ADDR_UNSPEC FI_ADDR_NOTAVAIL
        FI_KEY_NOTAVAIL FI_SHARED_CONTEXT FI_AV_UNSPEC FI_AV_MAP FI_AV_TABLE FI_MR_UNSPEC FI_MR_BASIC FI_MR_SCALABLE
        FI_MR_LOCAL FI_MR_RAW FI_MR_VIRT_ADDR FI_MR_ALLOCATED FI_MR_PROV_KEY FI_MR_MMU_NOTIFY FI_MR_RMA_EVENT
        FI_MR_ENDPOINT FI_MR_HMEM FI_MR_COLLECTIVE FI_PROGRESS_UNSPEC FI_PROGRESS_AUTO FI_PROGRESS_MANUAL
        FI_THREAD_UNSPEC FI_THREAD_SAFE FI_THREAD_FID FI_THREAD_DOMAIN FI_THREAD_COMPLETION FI_THREAD_ENDPOINT
        FI_RM_UNSPEC FI_RM_DISABLED FI_RM_ENABLED FI_ORDER_NONE FI_ORDER_RAR FI_ORDER_RAW FI_ORDER_RAS FI_ORDER_WAR
        FI_ORDER_WAW FI_ORDER_WAS FI_ORDER_SAR FI_ORDER_SAW FI_ORDER_SAS FI_ORDER_STRICT FI_ORDER_DATA FI_ORDER_RMA_RAR
        FI_ORDER_RMA_RAW FI_ORDER_RMA_WAR FI_ORDER_RMA_WAW FI_ORDER_ATOMIC_RAR FI_ORDER_ATOMIC_RAW FI_ORDER_ATOMIC_WAR
        FI_ORDER_ATOMIC_WAW FI_EP_UNSPEC FI_EP_MSG FI_EP_DGRAM FI_EP_RDM FI_PROTO_UNSPEC FI_PROTO_IWARP_RDM
        FI_CLASS_UNSPEC FI_CLASS_FABRIC
        FI_CLASS_DOMAIN FI_CLASS_EP FI_CLASS_SEP FI_CLASS_RX_CTX FI_CLASS_SRX_CTX FI_CLASS_TX_CTX FI_CLASS_STX_CTX
        FI_CLASS_PEP FI_CLASS_AV FI_CLASS_MR FI_CLASS_EQ FI_CLASS_CQ FI_CLASS_CNTR FI_CLASS_WAIT FI_CLASS_POLL
        FI_CLASS_NIC FI_GETFIDFLAG FI_SETFIDFLAG FI_GETOPSFLAG FI_SETOPSFLAG FI_ALIAS FI_GETWAIT FI_ENABLE FI_BACKLOG
        FI_GET_RAW_MR FI_MAP_RAW_MR FI_UNMAP_KEY FI_QUEUE_WORK FI_CANCEL_WORK FI_FLUSH_WORK FI_REFRESH FI_DUP
        FI_GETWAITOBJ FI_GET_VAL FI_SET_VAL FI_PARAM_STRING FI_PARAM_INT FI_PARAM_BOOL FI_PARAM_SIZE_T
    }
}

/// `rdma/fi_domain.h`.
fn domain(list: &mut Vec<Expectation>) {
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
    structure!(list, fid_mr { fid, mem_desc, key });
    structure!(
        list,
        fi_mr_attr {
            mr_iov,
            iov_count,
            access,
            offset,
            requested_key,
            context,
            auth_key_size,
            auth_key,
            iface,
            device,
            hmem_data,
            page_size,
            base_mr,
            sub_mr_cnt,
        }
    );
    structure!(list, fi_ops_mr { size, reg, regv, regattr });
    constants! { list: FI_HMEM_SYSTEM }
}

/// `rdma/fi_endpoint.h`, `rdma/fi_cm.h`, `rdma/fi_tagged.h`.
fn endpoint(list: &mut Vec<Expectation>) {
    structure!(list, fid_ep { fid, ops, cm, msg, rma, tagged, atomic, collective });
    structure!(
        list,
        fi_ops_ep { size, cancel, getopt, setopt, tx_ctx, rx_ctx, rx_size_left, tx_size_left, export_xpu }
    );
    structure!(list, fi_ops_cm { size, setname, getname, getpeer, connect, listen, accept, reject, shutdown, join });
    structure!(list, fi_msg_tagged { msg_iov, desc, iov_count, addr, tag, ignore, context, data });
    structure!(list, fi_ops_tagged { size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata });
    structure!(list, fi_msg { msg_iov, desc, iov_count, addr, context, data });
    structure!(list, fi_ops_msg { size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata });
    constants! {
        list:
        FI_OPT_ENDPOINT FI_OPT_MIN_MULTI_RECV FI_OPT_CM_DATA_SIZE FI_OPT_BUFFERED_MIN FI_OPT_BUFFERED_LIMIT
        FI_OPT_SEND_BUF_SIZE FI_OPT_RECV_BUF_SIZE FI_OPT_TX_SIZE FI_OPT_RX_SIZE FI_OPT_FI_HMEM_P2P FI_OPT_XPU_TRIGGER
    }
}

/// `rdma/fi_rma.h`, `rdma/fi_atomic.h`.
fn one_sided(list: &mut Vec<Expectation>) {
    structure!(list, fi_rma_iov { addr, len, key });
    structure!(list, fi_rma_ioc { addr, count, key });
    structure!(list, fi_msg_rma { msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, context, data });
    structure!(list, fi_ops_rma { size, read, readv, readmsg, write, writev, writemsg, inject, writedata, injectdata });
    structure!(list, fi_ioc { addr, count });
    structure!(list, fi_atomic_attr { count, size });
    structure!(
        list,
        fi_msg_atomic { msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, datatype, op, context, data }
    );
    structure!(
        list,
        fi_ops_atomic {
            size,
            write,
            writev,
            writemsg,
            inject,
            readwrite,
            readwritev,
            readwritemsg,
            compwrite,
            compwritev,
            compwritemsg,
            writevalid,
            readwritevalid,
            compwritevalid,
        }
    );
    constants! {
        list:
        FI_INT8 FI_UINT8 FI_INT16 FI_UINT16 FI_INT32 FI_UINT32 FI_INT64 FI_UINT64 FI_FLOAT FI_DOUBLE FI_FLOAT_COMPLEX
        FI_DOUBLE_COMPLEX FI_LONG_DOUBLE FI_LONG_DOUBLE_COMPLEX FI_INT128 FI_UINT128 FI_VOID FI_MIN FI_MAX FI_SUM
        FI_PROD FI_LOR FI_LAND FI_BOR FI_BAND FI_LXOR FI_BXOR FI_ATOMIC_READ FI_ATOMIC_WRITE FI_CSWAP FI_CSWAP_NE
        FI_CSWAP_LE FI_CSWAP_LT FI_CSWAP_GE FI_CSWAP_GT FI_MSWAP FI_NOOP
    }
}

/// `rdma/fi_collective.h`.
fn collective(list: &mut Vec<Expectation>) {
    structure!(
        list,
        fi_ops_collective {
            size,
            barrier,
            broadcast,
            alltoall,
            allreduce,
            allgather,
            reduce_scatter,
            reduce,
            scatter,
            gather,
            msg,
            barrier2,
        }
    );
}

/// `rdma/fi_eq.h`.
fn queues(list: &mut Vec<Expectation>) {
    structure!(list, fi_wait_attr { wait_obj, flags });
    structure!(list, fi_ops_wait { size, wait });
    structure!(list, fid_wait { fid, ops });
    structure!(list, fi_wait_pollfd { change_index, nfds, fd });
    structure!(list, fi_poll_attr { flags });
    structure!(list, fi_ops_poll { size, poll, poll_add, poll_del });
    structure!(list, fid_poll { fid, ops });
    structure!(list, fi_eq_attr { size, flags, wait_obj, signaling_vector, wait_set });
    structure!(list, fi_eq_entry { fid, context, data });
    structure!(list, fi_eq_err_entry { fid, context, data, err, prov_errno, err_data, err_data_size });
    structure!(list, fi_ops_eq { size, read, readerr, write, sread, strerror });
    structure!(list, fid_eq { fid, ops });
    structure!(list, fi_cq_entry { op_context });
    structure!(list, fi_cq_msg_entry { op_context, flags, len });
    structure!(list, fi_cq_data_entry { op_context, flags, len, buf, data });
    structure!(list, fi_cntr_attr { events, wait_obj, wait_set, flags, xpu_ctx });
    structure!(list, fi_ops_cntr { size, read, readerr, add, set, wait, adderr, seterr, export_xpu });
    structure!(list, fid_cntr { fid, ops });
    constants! {
        list:
        FI_WAIT_NONE FI_WAIT_UNSPEC FI_WAIT_SET FI_WAIT_FD FI_WAIT_MUTEX_COND FI_WAIT_YIELD FI_WAIT_POLLFD
        FI_CQ_FORMAT_UNSPEC FI_CQ_FORMAT_CONTEXT FI_CQ_FORMAT_MSG FI_CQ_FORMAT_DATA FI_CQ_FORMAT_TAGGED FI_CQ_COND_NONE
        FI_CQ_COND_THRESHOLD FI_CNTR_EVENTS_COMP FI_NOTIFY FI_CONNREQ FI_CONNECTED FI_SHUTDOWN FI_MR_COMPLETE
        FI_AV_COMPLETE FI_JOIN_COMPLETE
    }
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
}

/// `rdma/providers/fi_prov.h`, `rdma/providers/fi_log.h`.
fn provider(list: &mut Vec<Expectation>) {
    structure!(list, fi_provider { version, fi_version, context, name, getinfo, fabric, cleanup });
    constants! { list: FI_LOG_WARN FI_LOG_INFO FI_LOG_CORE FI_LOG_FABRIC FI_LOG_DOMAIN FI_LOG_EP_CTRL }
}

/// `rdma/fi_errno.h`.
fn errors(list: &mut Vec<Expectation>) {
    use weft_libfabric::abi::errno::*;
    constants! {
        list:
        FI_SUCCESS FI_EPERM FI_ENOENT FI_EINTR FI_EIO FI_EAGAIN FI_ENOMEM FI_EACCES FI_EBUSY FI_ENODEV FI_EINVAL
        FI_EMFILE FI_ENOSPC FI_ENOSYS FI_ENOMSG FI_ENODATA FI_EOVERFLOW FI_EMSGSIZE FI_ENOPROTOOPT FI_EOPNOTSUPP
        FI_EADDRINUSE FI_EADDRNOTAVAIL FI_ENETDOWN FI_ENETUNREACH FI_ECONNABORTED FI_ECONNRESET FI_ENOBUFS FI_ENOTCONN
        FI_ESHUTDOWN FI_ETIMEDOUT FI_ECONNREFUSED FI_EHOSTUNREACH FI_EALREADY FI_EREMOTEIO FI_ECANCELED FI_EKEYREJECTED
        FI_EOTHER FI_ETOOSMALL FI_EOPBADSTATE FI_EAVAIL FI_EBADFLAGS FI_ENOEQ FI_EDOMAIN FI_ENOCQ FI_ECRC FI_ETRUNC
        FI_ENOKEY FI_ENOAV FI_EOVERRUN
    }
    constants! { since NEWEST_VERSION, list: FI_EPROTO }
}

/// A program that prints each expression's value, or `-` where the headers are too old for it.
fn program(expectations: &[Expectation]) -> String {
    let mut text = String::from(
        "#include <stdio.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n#include <rdma/fi_endpoint.h>\n\
         #include <rdma/fi_cm.h>\n#include <rdma/fi_tagged.h>\n#include <rdma/fi_rma.h>\n#include <rdma/fi_atomic.h>\n\
         #include <rdma/fi_collective.h>\n#include <rdma/fi_eq.h>\n#include <rdma/fi_errno.h>\n\
         #include <rdma/providers/fi_prov.h>\n#include <rdma/providers/fi_log.h>\n\
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
    assert_eq!(core::mem::size_of::<fi_ops_cntr>(), 72);
    assert_eq!(core::mem::size_of::<fi_cntr_attr>(), 32);
    assert_eq!(core::mem::size_of::<fi_mr_attr>(), 112);
}
