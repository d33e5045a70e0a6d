//! The structures are laid out as `infiniband/verbs.h` has them: a C program that is compiled against the installed
//! header prints sizes and offsets. Without a compiler or the header (Debian: libibverbs-dev) nothing is compared.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use weft_verbs::abi::*;

/// An expression in C, and its value here.
type Fact = (String, u64);

macro_rules! structures {
    ($facts:ident: $($name:ident { $($field:ident),* })*) => {
        $(
            $facts.push((format!("sizeof(struct {})", stringify!($name)), size_of::<$name>() as u64));
            $(
                let expression = format!("offsetof(struct {}, {})", stringify!($name), stringify!($field));
                $facts.push((expression, offset_of!($name, $field) as u64));
            )*
        )*
    };
}

macro_rules! numbers {
    ($facts:ident: $($name:ident)*) => {
        $facts.extend([$((stringify!($name).to_owned(), $name as i64 as u64)),*]);
    };
}

fn structures() -> Vec<Fact> {
    let mut facts = Vec::new();
    structures! { facts:
        ibv_device { node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex }
        ibv_pd { context, handle }
        ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        ibv_comp_channel { context, fd, refcnt }
        ibv_cq { context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed, async_events_completed }
        ibv_srq { context, srq_context, pd, handle, mutex, cond, events_completed }
        ibv_qp {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond,
            events_completed
        }
        ibv_async_event { element, event_type }
        ibv_sge { addr, length, lkey }
        ibv_send_wr { wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr }
        ibv_recv_wr { wr_id, next, sg_list, num_sge }
        ibv_wc {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl,
            dlid_path_bits
        }
        ibv_device_attr {
            fw_ver, node_guid, max_mr_size, vendor_id, max_qp, device_cap_flags, max_sge, max_cq, atomic_cap, max_srq,
            max_pkeys, local_ca_ack_delay, phys_port_cnt
        }
        ibv_device_attr_ex { orig_attr, comp_mask, phys_port_cnt_ex }
        ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        ibv_qp_init_attr_ex {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, send_ops_flags
        }
        ibv_cq_init_attr_ex {
            cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags, parent_domain
        }
        ibv_cq_ex {
            comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode, read_vendor_err, read_byte_len,
            read_imm_data, read_qp_num, read_src_qp, read_wc_flags, read_slid, read_sl, read_dlid_path_bits,
            read_completion_ts, read_cvlan, read_flow_tag, read_tm_info, read_completion_wallclock_ns
        }
        ibv_data_buf { addr, length }
        ibv_qp_attr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap,
            ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic,
            max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout,
            rate_limit
        }
        ibv_srq_attr { max_wr, max_sge, srq_limit }
        ibv_srq_init_attr { srq_context, attr }
        ibv_srq_init_attr_ex { srq_context, attr, comp_mask, srq_type, pd }
        ibv_ece { vendor_id, options, comp_mask }
        ibv_context_ops {
            alloc_mw, bind_mw, dealloc_mw, poll_cq, req_notify_cq, post_srq_recv, post_send, post_recv
        }
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
    }
    facts.push(("sizeof(union ibv_gid)".to_owned(), size_of::<ibv_gid>() as u64));
    let remote = offset_of!(ibv_send_wr, wr) as u64;
    let of = |field: &str| format!("offsetof(struct ibv_send_wr, wr.{field})");
    facts.push((of("rdma.remote_addr"), remote + offset_of!(ibv_send_wr_remote, remote_addr) as u64));
    facts.push((of("rdma.rkey"), remote + offset_of!(ibv_send_wr_remote, compare_add) as u64));
    facts.push((of("atomic.compare_add"), remote + offset_of!(ibv_send_wr_remote, compare_add) as u64));
    facts.push((of("atomic.swap"), remote + offset_of!(ibv_send_wr_remote, swap) as u64));
    facts.push((of("atomic.rkey"), remote + offset_of!(ibv_send_wr_remote, rkey) as u64));
    facts
}

/// What grows: `ibv_port_attr` and `ibv_qp_ex` at their ends, `verbs_context` at its front, so that distances from its
/// end stay.
fn growing() -> Vec<Fact> {
    let mut facts = Vec::new();
    macro_rules! offsets {
        ($($field:ident)*) => {
            $(
                let expression = format!("offsetof(struct ibv_port_attr, {})", stringify!($field));
                facts.push((expression, offset_of!(ibv_port_attr, $field) as u64));
            )*
        };
    }
    offsets! { state max_mtu gid_tbl_len max_msg_sz pkey_tbl_len lid lmc active_speed link_layer flags port_cap_flags2 }
    macro_rules! posts {
        ($($field:ident)*) => {
            $(
                let expression = format!("offsetof(struct ibv_qp_ex, {})", stringify!($field));
                facts.push((expression, offset_of!(ibv_qp_ex, $field) as u64));
            )*
        };
    }
    posts! {
        qp_base comp_mask wr_id wr_flags wr_atomic_cmp_swp wr_atomic_fetch_add wr_bind_mw wr_local_inv wr_rdma_read
        wr_rdma_write wr_rdma_write_imm wr_send wr_send_imm wr_send_inv wr_send_tso wr_set_ud_addr wr_set_xrc_srqn
        wr_set_inline_data wr_set_inline_data_list wr_set_sge wr_set_sge_list wr_start wr_complete wr_abort
        wr_atomic_write
    }
    macro_rules! distances {
        ($($field:ident)*) => {
            $(
                let field = stringify!($field);
                let expression = format!("sizeof(struct verbs_context) - offsetof(struct verbs_context, {field})");
                let distance = size_of::<verbs_context>() - offset_of!(verbs_context, $field);
                facts.push((expression, distance as u64));
            )*
        };
    }
    distances! {
        query_port advise_mr alloc_null_mr create_counters alloc_dm modify_qp_rate_limit alloc_parent_domain alloc_td
        modify_cq post_srq_ops create_wq query_rt_values create_cq_ex query_device_ex ibv_create_flow open_qp
        create_qp_ex get_srq_num create_srq_ex open_xrcd close_xrcd sz context
    }
    facts
}

fn constants() -> Vec<Fact> {
    let mut facts = Vec::new();
    numbers! { facts:
        IBV_NODE_CA IBV_NODE_RNIC IBV_TRANSPORT_IB IBV_TRANSPORT_IWARP IBV_PORT_DOWN IBV_PORT_ACTIVE
        IBV_LINK_LAYER_INFINIBAND IBV_LINK_LAYER_ETHERNET IBV_ATOMIC_HCA IBV_MTU_1024
        IBV_MTU_4096 IBV_GID_TYPE_IB IBV_GID_TYPE_ROCE_V2 IBV_DEVICE_RC_RNR_NAK_GEN IBV_DEVICE_CURR_QP_STATE_MOD
        IBV_PORT_CM_SUP
        IBV_PORT_IP_BASED_GIDS IBV_FORK_UNNEEDED
        IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ IBV_ACCESS_REMOTE_ATOMIC
        IBV_ACCESS_ZERO_BASED IBV_ACCESS_ON_DEMAND IBV_ACCESS_HUGETLB IBV_ACCESS_OPTIONAL_RANGE
        IBV_REREG_MR_CHANGE_TRANSLATION IBV_REREG_MR_CHANGE_PD IBV_REREG_MR_CHANGE_ACCESS IBV_REREG_MR_ERR_INPUT
        IBV_EVENT_CQ_ERR IBV_EVENT_QP_FATAL IBV_EVENT_QP_REQ_ERR IBV_EVENT_QP_ACCESS_ERR IBV_EVENT_SQ_DRAINED
        IBV_EVENT_SRQ_LIMIT_REACHED IBV_EVENT_QP_LAST_WQE_REACHED
        IBV_WC_SUCCESS IBV_WC_LOC_LEN_ERR IBV_WC_LOC_PROT_ERR IBV_WC_WR_FLUSH_ERR IBV_WC_REM_INV_REQ_ERR
        IBV_WC_REM_ACCESS_ERR IBV_WC_REM_OP_ERR IBV_WC_RETRY_EXC_ERR IBV_WC_SEND IBV_WC_RDMA_WRITE IBV_WC_RDMA_READ
        IBV_WC_COMP_SWAP IBV_WC_FETCH_ADD IBV_WC_RECV IBV_WC_RECV_RDMA_WITH_IMM IBV_WC_WITH_IMM IBV_WC_WITH_INV
        IBV_WR_RDMA_WRITE IBV_WR_RDMA_WRITE_WITH_IMM IBV_WR_SEND IBV_WR_SEND_WITH_IMM IBV_WR_RDMA_READ
        IBV_WR_ATOMIC_CMP_AND_SWP IBV_WR_ATOMIC_FETCH_AND_ADD IBV_WR_SEND_WITH_INV IBV_SEND_FENCE IBV_SEND_SIGNALED
        IBV_SEND_SOLICITED IBV_SEND_INLINE
        IBV_QPT_RC IBV_QPT_UC IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_SQD IBV_QPS_SQE IBV_QPS_ERR
        IBV_QP_STATE IBV_QP_CUR_STATE IBV_QP_ACCESS_FLAGS IBV_QP_PKEY_INDEX IBV_QP_PORT IBV_QP_AV IBV_QP_PATH_MTU
        IBV_QP_TIMEOUT IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_RQ_PSN IBV_QP_MAX_QP_RD_ATOMIC IBV_QP_MIN_RNR_TIMER
        IBV_QP_SQ_PSN IBV_QP_MAX_DEST_RD_ATOMIC IBV_QP_CAP IBV_QP_DEST_QPN IBV_SRQ_MAX_WR IBV_SRQ_LIMIT
        IBV_QP_INIT_ATTR_PD IBV_QP_INIT_ATTR_SEND_OPS_FLAGS IBV_SRQ_INIT_ATTR_TYPE IBV_SRQ_INIT_ATTR_PD
        IBV_WC_STANDARD_FLAGS IBV_CQ_INIT_ATTR_MASK_FLAGS
        IBV_CREATE_CQ_ATTR_SINGLE_THREADED IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN
    }
    facts
}

#[test]
fn structures_and_numbers_are_those_of_the_header() {
    let facts = [structures(), growing(), constants()].concat();
    let Some(found) = ask_c(&facts) else {
        println!("skipped: there is no C compiler, or no infiniband/verbs.h (libibverbs-dev)");
        return;
    };
    assert_eq!(found.len(), facts.len(), "the C program says less than it was asked");
    let wrong: Vec<_> = facts.iter().zip(&found).filter(|((_, here), there)| here != *there).collect();
    assert!(wrong.is_empty(), "(expression, here), in the header:\n{wrong:#?}");
}

#[test]
fn the_context_has_the_size_of_version_65() {
    assert_eq!(size_of::<verbs_context>(), 696);
    assert_eq!(size_of::<ibv_port_attr>(), 56);
    assert_eq!(offset_of!(verbs_context, context) - offset_of!(verbs_context, sz), size_of::<usize>());
}

/// What a C program says these expressions are. `None`: it can't be compiled here.
fn ask_c(facts: &[Fact]) -> Option<Vec<u64>> {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        return None;
    }
    let mut source = "#include <infiniband/verbs.h>\n#include <stddef.h>\n#include <stdio.h>\n".to_owned();
    source.push_str("int main(void) {\n");
    for (expression, _) in facts {
        writeln!(source, "    printf(\"%llu\\n\", (unsigned long long)(long long)({expression}));").unwrap();
    }
    source.push_str("    return 0;\n}\n");
    let folder = std::env::temp_dir().join(format!("weft-verbs-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new("cc").arg("-o").arg(&program).arg(&file).output().ok()?;
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let said = Command::new(&program).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let lines = String::from_utf8(said.stdout).unwrap();
    Some(lines.lines().map(|line| line.parse().unwrap()).collect())
}
