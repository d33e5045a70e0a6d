/* What the cases of contract.c are made of: two queue pairs of one process, connected to each other. */
#ifndef PAIR_H
#define PAIR_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BYTES 4096
#define SECONDS 20
#define ALL_RIGHTS \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* Ends the case with what was found in place of what was expected. */
#define EXPECT(found, expected)                                                                           \
    do {                                                                                                  \
        long long found_ = (long long)(found), expected_ = (long long)(expected);                         \
        if (found_ != expected_) {                                                                        \
            printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #found, found_, expected_);       \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)
#define REQUIRE(condition) EXPECT(!!(condition), 1)
/* A call that returns NULL and sets errno. */
#define EXPECT_NULL(call, number)     \
    do {                              \
        errno = 0;                    \
        REQUIRE((call) == NULL);      \
        EXPECT(errno, number);        \
    } while (0)

/* What all cases use. */
struct base {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    char *bytes;
    union ibv_gid gid;
};

/* Two queue pairs, connected to each other. */
struct pair {
    struct ibv_qp *a, *b;
};

static inline struct ibv_context *open_device(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    REQUIRE(list != NULL && count > 0);
    struct ibv_context *context = ibv_open_device(list[0]);
    REQUIRE(context != NULL);
    ibv_free_device_list(list);
    return context;
}

static inline struct base open_base(int entries)
{
    struct base base = {.context = open_device()};
    base.pd = ibv_alloc_pd(base.context);
    base.cq = ibv_create_cq(base.context, entries, NULL, NULL, 0);
    REQUIRE(base.pd != NULL && base.cq != NULL);
    base.bytes = calloc(1, 16 * BYTES);
    base.mr = ibv_reg_mr(base.pd, base.bytes, 16 * BYTES, ALL_RIGHTS);
    REQUIRE(base.mr != NULL);
    EXPECT(ibv_query_gid(base.context, 1, 0, &base.gid), 0);
    return base;
}

static inline struct ibv_qp_init_attr plain(const struct base *base)
{
    struct ibv_qp_init_attr init = {.send_cq = base->cq, .recv_cq = base->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
    init.cap = (struct ibv_qp_cap){64, 64, 16, 16, 1024};
    return init;
}

static inline int to_init(struct ibv_qp *qp, int rights)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* The number of a timer for missing receives: 0.64 ms. */
#define SHORT_TIMER 12

static inline int to_rtr_with(struct ibv_qp *qp, union ibv_gid gid, uint32_t number, int min_rnr_timer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = number};
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = min_rnr_timer;
    attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.grh.hop_limit = 1;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static inline int to_rtr(struct ibv_qp *qp, union ibv_gid gid, uint32_t number)
{
    return to_rtr_with(qp, gid, number, SHORT_TIMER);
}

static inline int to_rts(struct ibv_qp *qp, int rnr_retry)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .max_rd_atomic = 16};
    attr.rnr_retry = rnr_retry;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

/* `rights`: of peers of `b`; `min_rnr_timer`: of `b`. */
static inline struct pair connect_pair_with(struct base *base, struct ibv_qp_init_attr init, int rights, int rnr_retry,
                                            int min_rnr_timer)
{
    struct pair pair = {ibv_create_qp(base->pd, &init), ibv_create_qp(base->pd, &init)};
    REQUIRE(pair.a != NULL && pair.b != NULL);
    EXPECT(to_init(pair.a, ALL_RIGHTS), 0);
    EXPECT(to_init(pair.b, rights), 0);
    EXPECT(to_rtr(pair.a, base->gid, pair.b->qp_num), 0);
    EXPECT(to_rtr_with(pair.b, base->gid, pair.a->qp_num, min_rnr_timer), 0);
    EXPECT(to_rts(pair.a, rnr_retry), 0);
    EXPECT(to_rts(pair.b, rnr_retry), 0);
    return pair;
}

static inline struct pair connect_pair(struct base *base, struct ibv_qp_init_attr init, int rights, int rnr_retry)
{
    return connect_pair_with(base, init, rights, rnr_retry, SHORT_TIMER);
}

static inline struct ibv_sge sge(const struct base *base, size_t offset, uint32_t length)
{
    return (struct ibv_sge){(uintptr_t)base->bytes + offset, length, base->mr->lkey};
}

static inline int post(struct ibv_qp *qp, int opcode, int flags, struct ibv_sge *list, int count, uint64_t to,
                       uint32_t rkey)
{
    struct ibv_send_wr wr = {.wr_id = 7, .sg_list = list, .num_sge = count, .opcode = opcode}, *bad = NULL;
    wr.send_flags = flags;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = to;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = to;
        wr.wr.rdma.rkey = rkey;
    }
    int result = ibv_post_send(qp, &wr, &bad);
    EXPECT(bad == &wr, result != 0);
    return result;
}

static inline int post_receive(struct ibv_qp *qp, struct ibv_sge *list, int count)
{
    struct ibv_recv_wr wr = {.wr_id = 8, .sg_list = list, .num_sge = count}, *bad = NULL;
    int result = ibv_post_recv(qp, &wr, &bad);
    EXPECT(bad == &wr, result != 0);
    return result;
}

/* The next completion; the case fails when none comes. */
static inline struct ibv_wc next_completion(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    time_t end = time(NULL) + SECONDS;
    while (time(NULL) < end) {
        int count = ibv_poll_cq(cq, 1, &wc);
        REQUIRE(count >= 0);
        if (count == 1)
            return wc;
    }
    printf("no completion came within %d s\n", SECONDS);
    exit(1);
}

static inline int state(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    EXPECT(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

/* The next completion of a queue pair has this status. Those of others are passed over. */
static inline struct ibv_wc expect_status(struct base *base, struct ibv_qp *qp, int status)
{
    struct ibv_wc wc;
    do
        wc = next_completion(base->cq);
    while (wc.qp_num != qp->qp_num);
    if ((int)wc.status != status)
        printf("status %s, not %s\n", ibv_wc_status_str(wc.status), ibv_wc_status_str((enum ibv_wc_status)status));
    EXPECT(wc.status, status);
    return wc;
}

/* A message from `a` finds a receive of `b` whose memory can't be used. */
static inline void expect_bad_receive(struct base *base, struct pair pair)
{
    struct ibv_sge from = sge(base, 0, 1);
    EXPECT(post(pair.a, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
    expect_status(base, pair.b, IBV_WC_LOC_PROT_ERR);
    EXPECT(state(pair.b), IBV_QPS_ERR);
}

/* One message from `a` to `b` arrives: work still goes on. */
static inline void exchange(struct base *base, struct pair pair)
{
    struct ibv_sge from = sge(base, 0, 64), to = sge(base, BYTES, 64);
    EXPECT(post_receive(pair.b, &to, 1), 0);
    EXPECT(post(pair.a, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
    for (int left = 2; left > 0;) {
        struct ibv_wc wc = next_completion(base->cq);
        if (wc.qp_num == pair.a->qp_num || wc.qp_num == pair.b->qp_num) {
            EXPECT(wc.status, IBV_WC_SUCCESS);
            left--;
        }
    }
}

#endif
