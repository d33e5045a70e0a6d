/* More rules of libibverbs that programs break, at what the device says that it can: full queues, values of attributes,
 * memory that can't be registered, objects of another context, events.
 *
 * limits CASE...    runs these cases, each in a process of its own; without any, all
 */
#include "cases.h"
#include "pair.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

/* Links requests to a list. */
#define LINK(list, count)                          \
    for (int at_ = 0; at_ < (count); at_++)        \
    (list)[at_].next = at_ + 1 < (count) ? &(list)[at_ + 1] : NULL

/* A queue takes as many receives as it was granted; of a list it takes those before the first that is wrong. */
static void full_receive_queues(void)
{
    struct base base = open_base(64);
    struct ibv_qp_init_attr init = plain(&base);
    struct ibv_qp *qp = ibv_create_qp(base.pd, &init);
    struct ibv_srq_init_attr shared = {.attr = {8, 2, 0}};
    struct ibv_srq *srq = ibv_create_srq(base.pd, &shared);
    struct ibv_sge one = sge(&base, 0, 8), many[17];
    struct ibv_recv_wr list[4], *bad = NULL;
    unsigned most = 0;
    REQUIRE(qp != NULL && srq != NULL && shared.attr.max_sge < 17);
    for (int at = 0; at < 17; at++)
        many[at] = one;
    EXPECT(to_init(qp, ALL_RIGHTS), 0);
    while (post_receive(qp, &one, 1) == 0)
        REQUIRE(++most <= init.cap.max_recv_wr);
    EXPECT(most, init.cap.max_recv_wr);
    EXPECT(post_receive(qp, &one, 1), ENOMEM);
    for (int at = 0; at < 4; at++)
        list[at] = (struct ibv_recv_wr){.wr_id = at, .sg_list = many, .num_sge = at == 2 ? shared.attr.max_sge + 1 : 1};
    LINK(list, 4);
    EXPECT(ibv_post_srq_recv(srq, list, &bad), EINVAL);
    REQUIRE(bad == &list[2]);
    for (most = 2; ibv_post_srq_recv(srq, &list[3], &bad) == 0; most++)
        REQUIRE(most < shared.attr.max_wr);
    EXPECT(most, shared.attr.max_wr);
    EXPECT(ibv_post_srq_recv(srq, &list[3], &bad), ENOMEM);
    REQUIRE(bad == &list[3]);
    /* A queue pair of a shared queue has none of its own. */
    init.srq = srq;
    struct ibv_qp *other = ibv_create_qp(base.pd, &init);
    REQUIRE(other != NULL);
    EXPECT(to_init(other, ALL_RIGHTS), 0);
    EXPECT(post_receive(other, &one, 1), EINVAL);
}

static void full_send_queue(void)
{
    struct base base = open_base(64);
    struct ibv_qp_init_attr init = plain(&base);
    struct pair pair = connect_pair(&base, init, ALL_RIGHTS, 7);
    struct ibv_sge one = sge(&base, 0, 8);
    struct ibv_send_wr list[4], *bad = NULL;
    unsigned most = 0;
    exchange(&base, pair);
    /* None of them finds a receive, so each keeps its place. */
    while (post(pair.a, IBV_WR_SEND, 0, &one, 1, 0, 0) == 0)
        REQUIRE(++most <= 2 * init.cap.max_send_wr);
    REQUIRE(most >= init.cap.max_send_wr);
    EXPECT(post(pair.a, IBV_WR_SEND, 0, &one, 1, 0, 0), ENOMEM);
    /* A list that breaks off: what was before goes out. */
    pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    for (int at = 0; at < 4; at++) {
        list[at] = (struct ibv_send_wr){.wr_id = at, .sg_list = &one, .num_sge = at == 2 ? 17 : 1};
        list[at].opcode = IBV_WR_RDMA_WRITE;
        list[at].wr.rdma.remote_addr = (uintptr_t)base.bytes + BYTES;
        list[at].wr.rdma.rkey = base.mr->rkey;
    }
    LINK(list, 4);
    EXPECT(ibv_post_send(pair.a, list, &bad), EINVAL);
    REQUIRE(bad == &list[2]);
    for (uint64_t id = 0; id < 2; id++)
        EXPECT(expect_status(&base, pair.a, IBV_WC_SUCCESS).wr_id, id);
    exchange(&base, pair);
}

static void registration(void)
{
    struct base base = open_base(16);
    char *pages = mmap(NULL, 3 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    EXPECT(mprotect(pages, BYTES, PROT_READ), 0);
    EXPECT(munmap(pages + 2 * BYTES, BYTES), 0);
    EXPECT_NULL(ibv_reg_mr(base.pd, pages, BYTES, IBV_ACCESS_LOCAL_WRITE), EFAULT);
    EXPECT_NULL(ibv_reg_mr(base.pd, pages + BYTES, 2 * BYTES, 0), EFAULT);
    EXPECT_NULL(ibv_reg_mr(base.pd, pages + BYTES, BYTES, IBV_ACCESS_REMOTE_WRITE), EINVAL);
    EXPECT_NULL(ibv_reg_mr(base.pd, pages + BYTES, BYTES, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
    EXPECT_NULL(ibv_reg_mr(base.pd, pages + BYTES, BYTES, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
    struct ibv_mr *mr = ibv_reg_mr(base.pd, pages, BYTES, IBV_ACCESS_REMOTE_READ);
    REQUIRE(mr != NULL);
    /* It stays as it is where the new place can't be registered. */
    REQUIRE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, pages + 2 * BYTES, BYTES, 0) != 0);
    REQUIRE(ibv_rereg_mr(mr, 1 << 20, NULL, NULL, 0, 0) != 0);
    REQUIRE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0) != 0);
    EXPECT(ibv_dereg_mr(mr), 0);
}

static void values_of_attributes(void)
{
    struct base base = open_base(64);
    struct ibv_qp_init_attr init = plain(&base);
    struct ibv_qp *qp = ibv_create_qp(base.pd, &init);
    int to_init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    int to_rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    int to_rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC;
    REQUIRE(qp != NULL);
#define WRONG(good, mask, field, value)                   \
    do {                                                  \
        struct ibv_qp_attr wrong_ = good;                 \
        wrong_.field = value;                             \
        EXPECT(ibv_modify_qp(qp, &wrong_, mask), EINVAL); \
    } while (0)
    struct ibv_qp_attr first = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    WRONG(first, to_init_mask, port_num, 0);
    WRONG(first, to_init_mask, port_num, 2);
    WRONG(first, to_init_mask, pkey_index, 1);
    WRONG(first, to_init_mask & ~IBV_QP_PORT, port_num, 1);
    WRONG(first, to_init_mask | IBV_QP_AV, port_num, 1);
    EXPECT(state(qp), IBV_QPS_RESET);
    EXPECT(ibv_modify_qp(qp, &first, to_init_mask), 0);
    struct ibv_qp_attr second = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num};
    second.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = base.gid, .hop_limit = 1}};
    WRONG(second, to_rtr_mask, path_mtu, 0);
    WRONG(second, to_rtr_mask, path_mtu, 6);
    WRONG(second, to_rtr_mask, dest_qp_num, 1 << 24);
    WRONG(second, to_rtr_mask, max_dest_rd_atomic, 129);
    WRONG(second, to_rtr_mask, ah_attr.port_num, 2);
    WRONG(second, to_rtr_mask, ah_attr.grh.sgid_index, 200);
    WRONG(second, to_rtr_mask, ah_attr.grh.dgid, (union ibv_gid){{0}});
    EXPECT(state(qp), IBV_QPS_INIT);
    EXPECT(ibv_modify_qp(qp, &second, to_rtr_mask), 0);
    struct ibv_qp_attr third = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
    WRONG(third, to_rts_mask, timeout, 32);
    WRONG(third, to_rts_mask, retry_cnt, 8);
    WRONG(third, to_rts_mask, rnr_retry, 8);
    WRONG(third, to_rts_mask, max_rd_atomic, 129);
    WRONG(third, to_rts_mask | IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_INIT);
    EXPECT(state(qp), IBV_QPS_RTR);
    EXPECT(ibv_modify_qp(qp, &third, to_rts_mask), 0);
    exchange(&base, (struct pair){qp, qp});
}

static void what_there_is_not(void)
{
    struct base base = open_base(16);
    struct ibv_port_attr port;
    union ibv_gid gid;
    __be16 key;
    REQUIRE(ibv_query_port(base.context, 0, &port) != 0);
    REQUIRE(ibv_query_port(base.context, 2, &port) != 0);
    EXPECT(ibv_query_port(base.context, 1, &port), 0);
    REQUIRE(ibv_query_gid(base.context, 2, 0, &gid) != 0);
    REQUIRE(ibv_query_gid(base.context, 1, -1, &gid) != 0);
    REQUIRE(ibv_query_gid(base.context, 1, port.gid_tbl_len + 200, &gid) != 0);
    REQUIRE(ibv_query_pkey(base.context, 1, port.pkey_tbl_len, &key) != 0);
    REQUIRE(ibv_query_pkey(base.context, 1, -1, &key) != 0);
    struct ibv_qp_init_attr init = plain(&base);
    init.qp_type = 99;
    REQUIRE(ibv_create_qp(base.pd, &init) == NULL);
    init.qp_type = IBV_QPT_UD;
    EXPECT_NULL(ibv_create_qp(base.pd, &init), EOPNOTSUPP);
    init.qp_type = IBV_QPT_RAW_PACKET;
    EXPECT_NULL(ibv_create_qp(base.pd, &init), EOPNOTSUPP);
}

/* Objects of two contexts don't go together. */
static void another_context(void)
{
    struct base base = open_base(16), other = open_base(16);
    struct ibv_qp_init_attr init = plain(&base);
    init.recv_cq = other.cq;
    EXPECT_NULL(ibv_create_qp(base.pd, &init), EINVAL);
    init.recv_cq = base.cq;
    EXPECT_NULL(ibv_create_qp(other.pd, &init), EINVAL);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(other.context);
    REQUIRE(channel != NULL);
    EXPECT_NULL(ibv_create_cq(base.context, 16, NULL, channel, 0), EINVAL);
    struct ibv_srq_init_attr shared = {.attr = {8, 1, 0}};
    init.srq = ibv_create_srq(other.pd, &shared);
    REQUIRE(init.srq != NULL);
    EXPECT_NULL(ibv_create_qp(base.pd, &init), EINVAL);
    init.srq = NULL;
    /* Keys of one mean nothing in the other. */
    struct pair pair = connect_pair(&base, init, ALL_RIGHTS, 7);
    struct ibv_sge wrong = {(uintptr_t)other.bytes, 64, other.mr->lkey};
    if (other.mr->lkey != base.mr->lkey) {
        EXPECT(post(pair.a, IBV_WR_SEND, 0, &wrong, 1, 0, 0), 0);
        expect_status(&base, pair.a, IBV_WC_LOC_PROT_ERR);
    }
    /* Closed under its objects, which can still be destroyed, and make no new ones. */
    EXPECT(ibv_close_device(base.context), 0);
    REQUIRE(ibv_close_device(base.context) != 0);
    EXPECT_NULL(ibv_create_qp(base.pd, &init), EINVAL);
    EXPECT_NULL(ibv_alloc_pd(base.context), EINVAL);
    EXPECT(ibv_destroy_qp(pair.a), 0);
    EXPECT(ibv_destroy_qp(pair.b), 0);
    EXPECT(ibv_destroy_cq(base.cq), 0);
    EXPECT(ibv_dereg_mr(base.mr), 0);
    EXPECT(ibv_dealloc_pd(base.pd), 0);
    exchange(&other, connect_pair(&other, plain(&other), ALL_RIGHTS, 7));
}

static void connect_end(struct ibv_qp *qp, union ibv_gid gid, uint32_t number)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = number};
    attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}};
    EXPECT(to_init(qp, ALL_RIGHTS & ~(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)), 0);
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN), 0);
    attr.qp_state = IBV_QPS_RTS;
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static struct pair connect_unreliable(struct base *base, struct ibv_qp_init_attr init)
{
    struct pair pair = {ibv_create_qp(base->pd, &init), ibv_create_qp(base->pd, &init)};
    REQUIRE(pair.a != NULL && pair.b != NULL);
    connect_end(pair.a, base->gid, pair.b->qp_num);
    connect_end(pair.b, base->gid, pair.a->qp_num);
    return pair;
}

/* Requests that this type of connection does not have, and atomics that are none. */
static void wrong_requests(void)
{
    struct base base = open_base(64);
    uint64_t to = (uintptr_t)base.bytes + BYTES;
    struct ibv_sge word = sge(&base, 0, 8), short_word = sge(&base, 0, 4);
    struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    EXPECT(post(pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &word, 1, to + 1, base.mr->rkey), 0);
    REQUIRE(next_completion(base.cq).status != IBV_WC_SUCCESS);
    EXPECT(state(pair.a), IBV_QPS_ERR);
    pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    base.bytes[BYTES] = 0;
    if (post(pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &short_word, 1, to, base.mr->rkey) == 0)
        REQUIRE(next_completion(base.cq).status != IBV_WC_SUCCESS);
    EXPECT(base.bytes[BYTES], 0);
    struct ibv_qp_init_attr init = plain(&base);
    init.qp_type = IBV_QPT_UC;
    pair = connect_unreliable(&base, init);
    REQUIRE(post(pair.a, IBV_WR_RDMA_READ, 0, &word, 1, to, base.mr->rkey) != 0);
    REQUIRE(post(pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &word, 1, to, base.mr->rkey) != 0);
    exchange(&base, pair);
}

static void *acknowledge_later(void *cq)
{
    usleep(50000);
    ibv_ack_cq_events(cq, 1);
    return NULL;
}

/* A queue waits for its events to be acknowledged, and not for more than there were. */
static void acknowledgments(void)
{
    struct base base = open_base(64);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(base.context);
    struct ibv_cq *cq = ibv_create_cq(base.context, 16, &base, channel, 0), *told;
    struct ibv_qp_init_attr init = plain(&base);
    struct ibv_sge from = sge(&base, 0, 8);
    void *context;
    pthread_t thread;
    REQUIRE(cq != NULL);
    EXPECT(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    REQUIRE(ibv_get_cq_event(channel, &told, &context) != 0);
    EXPECT(errno, EAGAIN);
    for (int is_late = 0; is_late < 2; is_late++) {
        init.send_cq = cq;
        struct pair pair = connect_pair(&base, init, ALL_RIGHTS, 7);
        /* Twice armed is one event. */
        EXPECT(ibv_req_notify_cq(cq, 0), 0);
        EXPECT(ibv_req_notify_cq(cq, 0), 0);
        EXPECT(post(pair.a, IBV_WR_RDMA_WRITE, 0, &from, 1, (uintptr_t)base.bytes + BYTES, base.mr->rkey), 0);
        while (ibv_get_cq_event(channel, &told, &context) != 0)
            EXPECT(errno, EAGAIN);
        REQUIRE(told == cq && context == &base);
        EXPECT(next_completion(cq).status, IBV_WC_SUCCESS);
        REQUIRE(ibv_get_cq_event(channel, &told, &context) != 0);
        if (is_late)
            EXPECT(pthread_create(&thread, NULL, acknowledge_later, cq), 0);
        else
            ibv_ack_cq_events(cq, 1000);
        EXPECT(ibv_destroy_qp(pair.a), 0);
        EXPECT(ibv_destroy_qp(pair.b), 0);
        EXPECT(ibv_destroy_cq(cq), 0);
        if (is_late)
            EXPECT(pthread_join(thread, NULL), 0);
        cq = ibv_create_cq(base.context, 16, &base, channel, 0);
        REQUIRE(cq != NULL);
    }
}

/* What is under way with a queue pair ends with it: nothing is left that touches memory or names it. */
static void destroyed_under_work(void)
{
    struct base base = open_base(256);
    struct ibv_sge from = sge(&base, 0, BYTES), to = sge(&base, BYTES, BYTES);
    struct ibv_wc wc;
    for (int turn = 0; turn < 50; turn++) {
        struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
        for (int count = 0; count < 8; count++) {
            EXPECT(post_receive(pair.b, &to, 1), 0);
            EXPECT(post(pair.a, turn % 2 ? IBV_WR_SEND : IBV_WR_RDMA_READ, 0, &from, 1, to.addr, base.mr->rkey), 0);
        }
        usleep(turn % 8 * 100);
        EXPECT(ibv_destroy_qp(turn % 3 ? pair.a : pair.b), 0);
        EXPECT(ibv_destroy_qp(turn % 3 ? pair.b : pair.a), 0);
        EXPECT(ibv_poll_cq(base.cq, 1, &wc), 0);
    }
    exchange(&base, connect_pair(&base, plain(&base), ALL_RIGHTS, 7));
}

#define LARGE ((size_t)8 << 20)

/* Memory that goes away while work reads and writes it, at this end and at the peer's: the process lives, each request
 * ends once, and the other queue pairs work on. */
static void unmapped_under_way(void)
{
    struct base base = open_base(256);
    /* Through shared memory a process that reads the other's can't tell whose memory is not there. */
    const char *carrier = getenv("WEFT_VERBS_CARRIER");
    int reads_each_other = carrier != NULL && strncmp(carrier, "shm", 3) == 0;
    for (int turn = 0; turn < 8; turn++) {
        char *ends[2];
        struct ibv_mr *mrs[2];
        for (int end = 0; end < 2; end++) {
            ends[end] = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            REQUIRE(ends[end] != MAP_FAILED);
            REQUIRE((mrs[end] = ibv_reg_mr(base.pd, ends[end], LARGE, ALL_RIGHTS)) != NULL);
        }
        struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
        exchange(&base, pair);
        struct ibv_sge own = {(uintptr_t)ends[0], LARGE, mrs[0]->lkey};
        int opcode = turn % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, count = 4;
        for (int at = 0; at < count; at++)
            EXPECT(post(pair.a, opcode, 0, &own, 1, (uintptr_t)ends[1], mrs[1]->rkey), 0);
        usleep((unsigned)turn * 200);
        EXPECT(munmap(ends[turn / 2 % 2], LARGE), 0);
        for (int is_first = 1; count > 0; count--) {
            struct ibv_wc wc = next_completion(base.cq);
            EXPECT(wc.qp_num, pair.a->qp_num);
            if (wc.status == IBV_WC_SUCCESS)
                continue;
            if (!is_first)
                EXPECT(wc.status, IBV_WC_WR_FLUSH_ERR);
            else if (turn / 2 % 2 == 0 && !reads_each_other)
                EXPECT(wc.status, IBV_WC_LOC_PROT_ERR);
            is_first = 0;
        }
        for (int end = 0; end < 2; end++)
            EXPECT(ibv_dereg_mr(mrs[end]), 0);
        EXPECT(munmap(ends[1 - turn / 2 % 2], LARGE), 0);
        EXPECT(ibv_destroy_qp(pair.a), 0);
        EXPECT(ibv_destroy_qp(pair.b), 0);
        struct ibv_wc wc;
        EXPECT(ibv_poll_cq(base.cq, 1, &wc), 0);
        exchange(&base, connect_pair(&base, plain(&base), ALL_RIGHTS, 7));
    }
}

#define HANDLERS 16

/* Each waits for an event of its own queue, and destroys and creates queue pairs when that has come. */
static void *handle(void *given)
{
    struct base base = *(struct base *)given;
    for (int turn = 0; turn < 20; turn++) {
        struct ibv_comp_channel *channel = ibv_create_comp_channel(base.context);
        struct ibv_cq *told;
        void *context;
        REQUIRE(channel != NULL);
        REQUIRE((base.cq = ibv_create_cq(base.context, 64, NULL, channel, 0)) != NULL);
        struct ibv_qp_init_attr init = plain(&base);
        struct pair pair = connect_pair(&base, init, ALL_RIGHTS, 7);
        struct ibv_sge from = sge(&base, 0, 64), to = sge(&base, BYTES, 64);
        EXPECT(ibv_req_notify_cq(base.cq, 0), 0);
        EXPECT(post_receive(pair.b, &to, 1), 0);
        EXPECT(post(pair.a, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
        EXPECT(ibv_get_cq_event(channel, &told, &context), 0);
        REQUIRE(told == base.cq);
        ibv_ack_cq_events(told, 1);
        EXPECT(ibv_destroy_qp(turn % 2 ? pair.a : pair.b), 0);
        struct ibv_qp *another = ibv_create_qp(base.pd, &init);
        REQUIRE(another != NULL);
        EXPECT(ibv_destroy_qp(another), 0);
        EXPECT(ibv_destroy_qp(turn % 2 ? pair.b : pair.a), 0);
        EXPECT(ibv_destroy_cq(base.cq), 0);
        EXPECT(ibv_destroy_comp_channel(channel), 0);
    }
    return NULL;
}

/* Threads that create and destroy queue pairs while work of others ends. */
static void handlers(void)
{
    struct base base = open_base(64);
    pthread_t threads[HANDLERS];
    for (int at = 0; at < HANDLERS; at++)
        EXPECT(pthread_create(&threads[at], NULL, handle, &base), 0);
    for (int at = 0; at < HANDLERS; at++)
        EXPECT(pthread_join(threads[at], NULL), 0);
}

static const struct one_case CASES[] = {
    {"full-receive-queues", full_receive_queues},
    {"full-send-queue", full_send_queue},
    {"registration", registration},
    {"values-of-attributes", values_of_attributes},
    {"what-there-is-not", what_there_is_not},
    {"another-context", another_context},
    {"wrong-requests", wrong_requests},
    {"acknowledgments", acknowledgments},
    {"unmapped-under-way", unmapped_under_way},
    {"handlers", handlers},
    {"destroyed-under-work", destroyed_under_work},
};

int main(int count, char **words)
{
    return run_cases(CASES, sizeof CASES / sizeof *CASES, count, words);
}
