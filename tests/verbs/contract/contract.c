/* Programs that break the rules of libibverbs get errors and live; what the device says that it can, it can.
 *
 * contract CASE...    runs these cases, each in a process of its own; without any, all
 */
#include "cases.h"
#include "pair.h"

#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

static void null_arguments(void)
{
    struct base base = open_base(16);
    struct ibv_qp_init_attr init = plain(&base);
    struct ibv_srq_init_attr srq = {.attr = {16, 1, 0}};
    struct ibv_qp *qp = ibv_create_qp(base.pd, &init);
    struct ibv_qp_attr attr = {0};
    struct ibv_cq *cq;
    void *context;
    REQUIRE(qp != NULL);
    EXPECT_NULL(ibv_open_device(NULL), EINVAL);
    EXPECT_NULL(ibv_alloc_pd(NULL), EINVAL);
    EXPECT_NULL(ibv_create_comp_channel(NULL), EINVAL);
    EXPECT_NULL(ibv_create_cq(NULL, 16, NULL, NULL, 0), EINVAL);
    EXPECT_NULL(ibv_create_srq(NULL, &srq), EINVAL);
    EXPECT_NULL(ibv_create_srq(base.pd, NULL), EINVAL);
    EXPECT_NULL(ibv_create_qp(NULL, &init), EINVAL);
    EXPECT_NULL(ibv_create_qp(base.pd, NULL), EINVAL);
    EXPECT_NULL((ibv_reg_mr)(NULL, base.bytes, 16, 0), EINVAL);
    EXPECT_NULL((ibv_reg_mr)(base.pd, NULL, 16, 0), EFAULT);
    EXPECT_NULL((ibv_reg_mr)(base.pd, base.bytes, 0, 0), EINVAL);
    init.send_cq = NULL;
    EXPECT_NULL(ibv_create_qp(base.pd, &init), EINVAL);
    EXPECT(ibv_dealloc_pd(NULL), EINVAL);
    EXPECT(ibv_dereg_mr(NULL), EINVAL);
    EXPECT(ibv_destroy_cq(NULL), EINVAL);
    EXPECT(ibv_destroy_srq(NULL), EINVAL);
    EXPECT(ibv_destroy_qp(NULL), EINVAL);
    EXPECT(ibv_destroy_comp_channel(NULL), EINVAL);
    EXPECT(ibv_modify_qp(NULL, &attr, IBV_QP_STATE), EINVAL);
    EXPECT(ibv_modify_qp(qp, NULL, IBV_QP_STATE), EINVAL);
    REQUIRE(ibv_get_cq_event(NULL, &cq, &context) != 0);
    REQUIRE(ibv_close_device(NULL) != 0);
}

static void double_destroy(void)
{
    struct base base = open_base(16);
    struct ibv_qp_init_attr init = plain(&base);
    struct ibv_srq_init_attr attr = {.attr = {16, 1, 0}};
    struct ibv_comp_channel *channel = ibv_create_comp_channel(base.context);
    struct ibv_srq *srq = ibv_create_srq(base.pd, &attr);
    struct ibv_qp *qp = ibv_create_qp(base.pd, &init);
    REQUIRE(channel != NULL && srq != NULL && qp != NULL);
#define TWICE(call)         \
    do {                    \
        EXPECT(call, 0);    \
        EXPECT(call, EINVAL); \
    } while (0)
    TWICE(ibv_destroy_qp(qp));
    TWICE(ibv_destroy_srq(srq));
    TWICE(ibv_destroy_cq(base.cq));
    TWICE(ibv_destroy_comp_channel(channel));
    TWICE(ibv_dereg_mr(base.mr));
    TWICE(ibv_dealloc_pd(base.pd));
}

static void destroy_in_use(void)
{
    struct base base = open_base(16);
    struct ibv_srq_init_attr attr = {.attr = {16, 1, 0}};
    struct ibv_comp_channel *channel = ibv_create_comp_channel(base.context);
    struct ibv_cq *cq = ibv_create_cq(base.context, 16, NULL, channel, 0);
    struct ibv_srq *srq = ibv_create_srq(base.pd, &attr);
    struct ibv_qp_init_attr init = plain(&base);
    init.srq = srq;
    struct ibv_qp *qp = ibv_create_qp(base.pd, &init);
    REQUIRE(cq != NULL && srq != NULL && qp != NULL);
    EXPECT(ibv_dealloc_pd(base.pd), EBUSY);
    EXPECT(ibv_destroy_cq(base.cq), EBUSY);
    EXPECT(ibv_destroy_srq(srq), EBUSY);
    EXPECT(ibv_destroy_comp_channel(channel), EBUSY);
    EXPECT(ibv_destroy_qp(qp), 0);
    EXPECT(ibv_destroy_srq(srq), 0);
    EXPECT(ibv_destroy_cq(base.cq), 0);
    EXPECT(ibv_dealloc_pd(base.pd), EBUSY);
    EXPECT(ibv_dereg_mr(base.mr), 0);
    EXPECT(ibv_dealloc_pd(base.pd), 0);
    EXPECT(ibv_destroy_cq(cq), 0);
    EXPECT(ibv_destroy_comp_channel(channel), 0);
}

static void wrong_domain(void)
{
    struct base base = open_base(64);
    struct ibv_pd *other = ibv_alloc_pd(base.context);
    struct ibv_mr *mr = ibv_reg_mr(other, base.bytes, BYTES, ALL_RIGHTS);
    REQUIRE(mr != NULL);
    struct ibv_sge wrong = {(uintptr_t)base.bytes, 64, mr->lkey}, right = sge(&base, 0, 64);
    struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    EXPECT(post(pair.a, IBV_WR_SEND, 0, &wrong, 1, 0, 0), 0);
    expect_status(&base, pair.a, IBV_WC_LOC_PROT_ERR);
    EXPECT(state(pair.a), IBV_QPS_ERR);
    pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    EXPECT(post_receive(pair.b, &wrong, 1), 0);
    expect_bad_receive(&base, pair);
    expect_status(&base, pair.a, IBV_WC_REM_OP_ERR);
    pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    EXPECT(post(pair.a, IBV_WR_RDMA_WRITE, 0, &right, 1, (uintptr_t)base.bytes, mr->rkey), 0);
    expect_status(&base, pair.a, IBV_WC_REM_ACCESS_ERR);
    EXPECT(state(pair.a), IBV_QPS_ERR);
}

static void bad_keys(void)
{
    struct base base = open_base(64);
    struct ibv_sge list[16], whole = sge(&base, 0, 64);
    /* Among many, and beyond what is listed in place. */
    for (int at = 0; at < 16; at++)
        list[at] = sge(&base, 64 * at, 64);
    for (int bad = 0; bad < 16; bad += 5) {
        struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
        list[bad].lkey ^= 0x5555;
        EXPECT(post(pair.a, IBV_WR_SEND, 0, list, 16, 0, 0), 0);
        expect_status(&base, pair.a, IBV_WC_LOC_PROT_ERR);
        EXPECT(state(pair.a), IBV_QPS_ERR);
        EXPECT(post(pair.a, IBV_WR_SEND, 0, &whole, 1, 0, 0), 0);
        expect_status(&base, pair.a, IBV_WC_WR_FLUSH_ERR);
        list[bad].lkey ^= 0x5555;
    }
    struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    EXPECT(post(pair.a, IBV_WR_RDMA_READ, 0, &whole, 1, (uintptr_t)base.bytes, base.mr->rkey ^ 0x5555), 0);
    expect_status(&base, pair.a, IBV_WC_REM_ACCESS_ERR);
    EXPECT(state(pair.a), IBV_QPS_ERR);
    /* A region that the program may not write is no sink. */
    struct ibv_mr *readable = ibv_reg_mr(base.pd, base.bytes, BYTES, 0);
    struct ibv_sge sink = {(uintptr_t)base.bytes, 64, readable->lkey};
    pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    EXPECT(post(pair.a, IBV_WR_RDMA_READ, 0, &sink, 1, (uintptr_t)base.bytes, base.mr->rkey), 0);
    expect_status(&base, pair.a, IBV_WC_LOC_PROT_ERR);
}

static void rights_of_queue_pairs(void)
{
    static const struct {
        int opcode, right;
    } tried[] = {{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
                 {IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
                 {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC}};
    struct base base = open_base(64);
    struct ibv_sge word = sge(&base, 0, 8);
    for (int at = 0; at < 3; at++) {
        uint64_t to = (uintptr_t)base.bytes + BYTES;
        struct pair pair = connect_pair(&base, plain(&base), tried[at].right | IBV_ACCESS_LOCAL_WRITE, 7);
        EXPECT(post(pair.a, tried[at].opcode, 0, &word, 1, to, base.mr->rkey), 0);
        expect_status(&base, pair.a, IBV_WC_SUCCESS);
        pair = connect_pair(&base, plain(&base), ALL_RIGHTS & ~tried[at].right, 7);
        EXPECT(post(pair.a, tried[at].opcode, 0, &word, 1, to, base.mr->rkey), 0);
        expect_status(&base, pair.a, IBV_WC_REM_ACCESS_ERR);
        EXPECT(state(pair.a), IBV_QPS_ERR);
    }
    /* Rights may change as long as it sends. */
    struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    exchange(&base, pair);
    struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_LOCAL_WRITE};
    EXPECT(ibv_modify_qp(pair.b, &attr, IBV_QP_ACCESS_FLAGS), 0);
    EXPECT(post(pair.a, IBV_WR_RDMA_WRITE, 0, &word, 1, (uintptr_t)base.bytes, base.mr->rkey), 0);
    expect_status(&base, pair.a, IBV_WC_REM_ACCESS_ERR);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The sender waits for the timer of its peer, once and `rnr_retry` times again; its own timer is shorter. */
static void no_receive(void)
{
    struct base base = open_base(64);
    struct ibv_sge from = sge(&base, 0, 64), to = sge(&base, BYTES, 64);
    /* By the numbers of the architecture, in seconds; 0.1 at least. */
    struct {
        int rnr_retry, min_rnr_timer;
        double least;
    } tried[] = {{0, SHORT_TIMER, 0.1}, {0, 0, 0.65536}, {0, 29, 0.24576}, {1, 29, 0.49152}, {6, 25, 0.43008}};
    for (size_t at = 0; at < sizeof tried / sizeof *tried; at++) {
        struct pair pair = connect_pair_with(&base, plain(&base), ALL_RIGHTS, tried[at].rnr_retry,
                                             tried[at].min_rnr_timer);
        exchange(&base, pair);
        double began = seconds();
        EXPECT(post(pair.a, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
        EXPECT(post(pair.a, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
        expect_status(&base, pair.a, IBV_WC_RNR_RETRY_EXC_ERR);
        double took = seconds() - began;
        if (took < tried[at].least)
            printf("rnr_retry %d, min_rnr_timer %d: %f s, not %f\n", tried[at].rnr_retry, tried[at].min_rnr_timer,
                   took, tried[at].least);
        REQUIRE(took >= tried[at].least);
        expect_status(&base, pair.a, IBV_WC_WR_FLUSH_ERR);
        EXPECT(state(pair.a), IBV_QPS_ERR);
    }
    /* 7: for ever. */
    struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    EXPECT(post(pair.a, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
    struct ibv_wc wc;
    for (int turn = 0; turn < 300; turn++) {
        EXPECT(ibv_poll_cq(base.cq, 1, &wc), 0);
        usleep(1000);
    }
    EXPECT(post_receive(pair.b, &to, 1), 0);
    expect_status(&base, pair.a, IBV_WC_SUCCESS);
}

static void overrun(void)
{
    struct base base = open_base(4);
    struct ibv_cq *large = ibv_create_cq(base.context, 256, NULL, NULL, 0);
    struct ibv_qp_init_attr init = plain(&base);
    init.recv_cq = large;
    struct pair pair = connect_pair(&base, init, ALL_RIGHTS, 7);
    struct ibv_sge from = sge(&base, 0, 8);
    int most = 2 * base.cq->cqe;
    struct pollfd event = {.fd = base.context->async_fd, .events = POLLIN};
    struct ibv_wc wc;
    for (int count = 0; count < most + 8; count++) {
        while (post(pair.a, IBV_WR_RDMA_WRITE, 0, &from, 1, (uintptr_t)base.bytes + BYTES, base.mr->rkey) == ENOMEM)
            EXPECT(ibv_poll_cq(large, 1, &wc), 0);
    }
    for (time_t end = time(NULL) + SECONDS; poll(&event, 1, 0) == 0 && time(NULL) < end;)
        EXPECT(ibv_poll_cq(large, 1, &wc), 0);
    struct ibv_async_event told;
    EXPECT(ibv_get_async_event(base.context, &told), 0);
    EXPECT(told.event_type, IBV_EVENT_CQ_ERR);
    REQUIRE(told.element.cq == base.cq);
    ibv_ack_async_event(&told);
    for (int count = 0; count < most; count++)
        EXPECT(next_completion(base.cq).status, IBV_WC_SUCCESS);
}

static void posts_in_every_state(void)
{
    struct base base = open_base(64);
    struct ibv_qp_init_attr init = plain(&base);
    struct ibv_sge from = sge(&base, 0, 64);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    for (int reached = IBV_QPS_RESET; reached <= IBV_QPS_RTR; reached++) {
        struct ibv_qp *qp = ibv_create_qp(base.pd, &init);
        if (reached >= IBV_QPS_INIT)
            EXPECT(to_init(qp, ALL_RIGHTS), 0);
        if (reached >= IBV_QPS_RTR)
            EXPECT(to_rtr(qp, base.gid, qp->qp_num + 4096), 0);
        EXPECT(post(qp, IBV_WR_SEND, 0, &from, 1, 0, 0), EINVAL);
        EXPECT(post_receive(qp, &from, 1), reached == IBV_QPS_RESET ? EINVAL : 0);
        EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
        if (reached != IBV_QPS_RESET)
            expect_status(&base, qp, IBV_WC_WR_FLUSH_ERR);
        EXPECT(post(qp, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
        expect_status(&base, qp, IBV_WC_WR_FLUSH_ERR);
        EXPECT(post_receive(qp, &from, 1), 0);
        expect_status(&base, qp, IBV_WC_WR_FLUSH_ERR);
        EXPECT(ibv_destroy_qp(qp), 0);
    }
    /* SQD, as RTS. */
    struct pair drained = connect_pair(&base, init, ALL_RIGHTS, 7);
    attr.qp_state = IBV_QPS_SQD;
    EXPECT(ibv_modify_qp(drained.a, &attr, IBV_QP_STATE), 0);
    exchange(&base, drained);
    EXPECT(ibv_modify_qp(drained.a, &(struct ibv_qp_attr){.qp_state = IBV_QPS_INIT}, IBV_QP_STATE), EINVAL);
    /* A step left out, and an opcode that there is not. */
    struct ibv_qp *qp = ibv_create_qp(base.pd, &init);
    EXPECT(to_rts(qp, 7), EINVAL);
    EXPECT(to_rtr(qp, base.gid, 1), EINVAL);
    attr.qp_state = 99;
    EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    struct pair pair = connect_pair(&base, init, ALL_RIGHTS, 7);
    REQUIRE(post(pair.a, 99, 0, &from, 1, 0, 0) != 0);
    exchange(&base, pair);
}

static void huge_counts(void)
{
    struct base base = open_base(64);
    struct ibv_qp_init_attr good = plain(&base), init;
    struct ibv_device_attr device;
    struct ibv_srq_init_attr srq = {.attr = {UINT_MAX, 1, 0}};
    EXPECT(ibv_query_device(base.context, &device), 0);
    EXPECT(device.max_sge, 16);
#define TOO_MUCH(field, value)                              \
    do {                                                    \
        init = good;                                        \
        init.cap.field = value;                             \
        EXPECT_NULL(ibv_create_qp(base.pd, &init), EINVAL); \
    } while (0)
    TOO_MUCH(max_send_wr, UINT_MAX);
    TOO_MUCH(max_recv_wr, UINT_MAX);
    TOO_MUCH(max_send_wr, device.max_qp_wr + 1);
    TOO_MUCH(max_send_sge, device.max_sge + 1);
    TOO_MUCH(max_recv_sge, device.max_sge + 1);
    TOO_MUCH(max_inline_data, 1025);
    EXPECT_NULL(ibv_create_cq(base.context, -1, NULL, NULL, 0), EINVAL);
    EXPECT_NULL(ibv_create_cq(base.context, 0, NULL, NULL, 0), EINVAL);
    EXPECT_NULL(ibv_create_cq(base.context, INT_MAX, NULL, NULL, 0), EINVAL);
    EXPECT_NULL(ibv_create_cq(base.context, 16, NULL, NULL, INT_MAX), EINVAL);
    EXPECT_NULL(ibv_create_srq(base.pd, &srq), EINVAL);
    srq.attr = (struct ibv_srq_attr){16, device.max_srq_sge + 1, 0};
    EXPECT_NULL(ibv_create_srq(base.pd, &srq), EINVAL);
    REQUIRE(ibv_reg_mr(base.pd, base.bytes, SIZE_MAX, 0) == NULL);
    REQUIRE(ibv_reg_mr(base.pd, (void *)(UINTPTR_MAX - 100), 4096, 0) == NULL);
    struct ibv_wc none;
    REQUIRE(ibv_poll_cq(base.cq, -1, &none) < 0);
    REQUIRE(ibv_poll_cq(base.cq, INT_MIN, &none) < 0);
    EXPECT(ibv_poll_cq(base.cq, 0, NULL), 0);
    EXPECT(ibv_resize_cq(base.cq, -1), EINVAL);
    EXPECT(ibv_resize_cq(base.cq, INT_MAX), EINVAL);
    struct pair pair = connect_pair(&base, good, ALL_RIGHTS, 7);
    struct ibv_sge list[17];
    for (int at = 0; at < 17; at++)
        list[at] = sge(&base, 0, 1);
    int wrong[] = {-1, 17, INT_MAX, INT_MIN};
    for (int at = 0; at < 4; at++) {
        EXPECT(post(pair.a, IBV_WR_SEND, 0, list, wrong[at], 0, 0), EINVAL);
        EXPECT(post_receive(pair.b, list, wrong[at]), EINVAL);
    }
    struct ibv_sge longer = sge(&base, 0, 1025);
    EXPECT(post(pair.a, IBV_WR_SEND, IBV_SEND_INLINE, &longer, 1, 0, 0), EINVAL);
    longer.length = UINT_MAX;
    EXPECT(post(pair.a, IBV_WR_SEND, IBV_SEND_INLINE, &longer, 1, 0, 0), EINVAL);
    exchange(&base, pair);
}

static void lists_that_wrap(void)
{
    struct base base = open_base(64);
    uint64_t end = (uintptr_t)base.bytes + 16 * BYTES;
    struct ibv_sge wrong[] = {{UINT64_MAX - 10, 100, base.mr->lkey},
                              {end - 10, 11, base.mr->lkey},
                              {end, 1, base.mr->lkey},
                              {(uintptr_t)base.bytes - 1, 8, base.mr->lkey},
                              {(uintptr_t)base.bytes, UINT_MAX, base.mr->lkey}};
    for (int at = 0; at < 5; at++) {
        struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
        EXPECT(post(pair.a, IBV_WR_SEND, 0, &wrong[at], 1, 0, 0), 0);
        expect_status(&base, pair.a, IBV_WC_LOC_PROT_ERR);
        pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
        EXPECT(post_receive(pair.b, &wrong[at], 1), 0);
        expect_bad_receive(&base, pair);
    }
    /* The target: past the end of the region, and of all addresses. */
    struct ibv_sge from = sge(&base, 0, 64);
    uint64_t target[] = {end - 63, end, (uintptr_t)base.bytes - 1};
    for (int at = 0; at < 3; at++) {
        struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
        EXPECT(post(pair.a, IBV_WR_RDMA_WRITE, 0, &from, 1, target[at], base.mr->rkey), 0);
        expect_status(&base, pair.a, IBV_WC_REM_ACCESS_ERR);
    }
    /* Sixteen pieces that are longer together than a message can be. */
    size_t quarter = (size_t)1 << 28;
    void *large = mmap(NULL, quarter, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct ibv_mr *mr = ibv_reg_mr(base.pd, large, quarter, 0);
    REQUIRE(large != MAP_FAILED && mr != NULL);
    struct ibv_sge list[16];
    for (int at = 0; at < 16; at++)
        list[at] = (struct ibv_sge){(uintptr_t)large, quarter, mr->lkey};
    struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    EXPECT(post(pair.a, IBV_WR_SEND, 0, list, 16, 0, 0), EINVAL);
    exchange(&base, pair);
}

static void unmapped(void)
{
    struct base base = open_base(64);
    struct ibv_sge good = sge(&base, 0, 4096), list[16];
    for (int is_many = 0; is_many < 2; is_many++) {
        for (int is_send = 0; is_send < 2; is_send++) {
            void *gone = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            struct ibv_mr *mr = ibv_reg_mr(base.pd, gone, BYTES, ALL_RIGHTS);
            int count = is_many ? 16 : 1;
            for (int at = 0; at < count; at++)
                list[at] = (struct ibv_sge){(uintptr_t)gone + at * (BYTES / count), BYTES / count, mr->lkey};
            struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
            exchange(&base, pair);
            EXPECT(post_receive(pair.b, is_send ? &good : list, is_send ? 1 : count), 0);
            munmap(gone, BYTES);
            EXPECT(post(pair.a, IBV_WR_SEND, 0, is_send ? list : &good, is_send ? count : 1, 0, 0), 0);
            struct ibv_wc wc;
            do
                wc = next_completion(base.cq);
            while (wc.qp_num != (is_send ? pair.a : pair.b)->qp_num);
            REQUIRE(wc.status != IBV_WC_SUCCESS);
        }
    }
    exchange(&base, connect_pair(&base, plain(&base), ALL_RIGHTS, 7));
}

/* What is deregistered is the program's again, whatever is posted with it. */
static void deregistered(void)
{
    struct base base = open_base(64);
    char *bytes = calloc(1, BYTES);
    struct ibv_mr *mr = ibv_reg_mr(base.pd, bytes, BYTES, ALL_RIGHTS);
    struct ibv_sge to = {(uintptr_t)bytes, BYTES, mr->lkey};
    struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    exchange(&base, pair);
    EXPECT(post_receive(pair.b, &to, 1), 0);
    EXPECT(ibv_dereg_mr(mr), 0);
    memset(base.bytes, 1, 64);
    expect_bad_receive(&base, pair);
    for (int at = 0; at < BYTES; at++)
        EXPECT(bytes[at], 0);
}

static void fork_in_the_middle(void)
{
    struct base base = open_base(64);
    struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    exchange(&base, pair);
    struct ibv_sge from = sge(&base, 0, 64), to = sge(&base, BYTES, 64);
    EXPECT(post_receive(pair.b, &to, 1), 0);
    pid_t child = fork();
    if (child == 0) {
        struct ibv_wc wc;
        REQUIRE(post(pair.a, IBV_WR_SEND, 0, &from, 1, 0, 0) != 0);
        REQUIRE(post_receive(pair.b, &to, 1) != 0);
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
        REQUIRE(ibv_poll_cq(base.cq, 1, &wc) <= 0);
        REQUIRE(ibv_modify_qp(pair.a, &attr, IBV_QP_STATE) != 0);
        REQUIRE(ibv_create_cq(base.context, 1, NULL, NULL, 0) == NULL);
        REQUIRE(ibv_destroy_qp(pair.a) != 0);
        REQUIRE(ibv_dereg_mr(base.mr) != 0);
        REQUIRE(ibv_close_device(base.context) != 0);
        /* One of its own works. */
        struct base own = open_base(64);
        exchange(&own, connect_pair(&own, plain(&own), ALL_RIGHTS, 7));
        _exit(0);
    }
    int ended;
    REQUIRE(waitpid(child, &ended, 0) == child);
    EXPECT(ended, 0);
    EXPECT(post(pair.a, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
    for (int left = 2; left > 0; left--)
        EXPECT(next_completion(base.cq).status, IBV_WC_SUCCESS);
}

#define THREADS 16
#define EACH 200

struct poster {
    struct base *base;
    struct pair pair;
    /* Requests that may be under way. */
    sem_t room;
};

static void *post_many(void *given)
{
    struct poster *poster = given;
    struct ibv_sge from = sge(poster->base, 0, 8);
    uint64_t to = (uintptr_t)poster->base->bytes + BYTES;
    for (int left = EACH; left > 0; left--) {
        EXPECT(sem_wait(&poster->room), 0);
        EXPECT(post(poster->pair.a, IBV_WR_RDMA_WRITE, 0, &from, 1, to, poster->base->mr->rkey), 0);
    }
    return NULL;
}

static void many_threads(void)
{
    struct base base = open_base(256);
    struct poster poster = {.base = &base, .pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7)};
    EXPECT(sem_init(&poster.room, 0, 64), 0);
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++)
        EXPECT(pthread_create(&threads[at], NULL, post_many, &poster), 0);
    for (int left = THREADS * EACH; left > 0; left--) {
        EXPECT(next_completion(base.cq).status, IBV_WC_SUCCESS);
        EXPECT(sem_post(&poster.room), 0);
    }
    for (int at = 0; at < THREADS; at++)
        EXPECT(pthread_join(threads[at], NULL), 0);
}

static void closed_library(void)
{
    for (int turn = 0; turn < 3; turn++) {
        void *library = dlopen("libibverbs.so.1", RTLD_NOW);
        REQUIRE(library != NULL);
        struct base base = open_base(64);
        exchange(&base, connect_pair(&base, plain(&base), ALL_RIGHTS, 7));
        EXPECT(dlclose(library), 0);
    }
}

#define QUEUE_PAIRS 1000

static void thousand_queue_pairs(void)
{
    static struct pair pairs[QUEUE_PAIRS / 2];
    struct base base = open_base(4 * QUEUE_PAIRS);
    struct ibv_qp_init_attr init = plain(&base);
    init.cap = (struct ibv_qp_cap){4, 4, 1, 1, 0};
    for (int at = 0; at < QUEUE_PAIRS / 2; at++)
        pairs[at] = connect_pair(&base, init, ALL_RIGHTS, 7);
    struct ibv_sge from = sge(&base, 0, 64), to = sge(&base, BYTES, 64);
    for (int at = 0; at < QUEUE_PAIRS / 2; at++) {
        EXPECT(post_receive(pairs[at].b, &to, 1), 0);
        EXPECT(post(pairs[at].a, IBV_WR_SEND, 0, &from, 1, 0, 0), 0);
    }
    for (int left = QUEUE_PAIRS; left > 0; left--)
        EXPECT(next_completion(base.cq).status, IBV_WC_SUCCESS);
    for (int at = 0; at < QUEUE_PAIRS / 2; at++) {
        EXPECT(ibv_destroy_qp(pairs[at].a), 0);
        EXPECT(ibv_destroy_qp(pairs[at].b), 0);
    }
}

/* Fills the pieces of the list with bytes that tell them apart, from `seed` on. */
static void fill(struct ibv_sge *list, int count, int seed)
{
    for (int at = 0; at < count; at++)
        for (uint32_t byte = 0; byte < list[at].length; byte++)
            ((char *)(uintptr_t)list[at].addr)[byte] = (char)seed++;
}

static void check(struct ibv_sge *list, int count, int seed)
{
    for (int at = 0; at < count; at++)
        for (uint32_t byte = 0; byte < list[at].length; byte++)
            EXPECT(((char *)(uintptr_t)list[at].addr)[byte], (char)seed++);
}

/* Sixteen pieces each way, of odd lengths: as a Send, a Write and a Read, short and long. */
static void sixteen_pieces(void)
{
    size_t half = 1 << 20;
    struct base base = open_base(64);
    char *bytes = calloc(2, half);
    struct ibv_mr *mr = ibv_reg_mr(base.pd, bytes, 2 * half, ALL_RIGHTS);
    struct ibv_srq_init_attr attr = {.attr = {16, 16, 0}};
    struct ibv_srq *srq = ibv_create_srq(base.pd, &attr);
    REQUIRE(mr != NULL && srq != NULL);
    uint32_t lengths[] = {3, 101, 4001, 60001};
    struct ibv_sge word = sge(&base, 0, 8);
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct ibv_qp_init_attr init = plain(&base);
        init.srq = is_shared ? srq : NULL;
        struct pair pair = connect_pair(&base, init, ALL_RIGHTS, 7);
        for (int size = 0; size < 4; size++) {
            uint32_t all = 16 * lengths[size];
            struct ibv_sge from[16], to[16], flat = {(uintptr_t)bytes + half, all, mr->lkey};
            for (int at = 0; at < 16; at++) {
                /* From the last to the first, with a gap of one byte between them. */
                uint64_t place = (uint64_t)(15 - at) * (lengths[size] + 1);
                from[at] = (struct ibv_sge){(uintptr_t)bytes + place, lengths[size], mr->lkey};
                to[at] = (struct ibv_sge){(uintptr_t)bytes + half + place, lengths[size], mr->lkey};
            }
            fill(from, 16, size);
            struct ibv_recv_wr wr = {.wr_id = 8, .sg_list = to, .num_sge = 16}, *bad;
            if (is_shared)
                EXPECT(ibv_post_srq_recv(srq, &wr, &bad), 0);
            else
                EXPECT(post_receive(pair.b, to, 16), 0);
            EXPECT(post(pair.a, IBV_WR_SEND, 0, from, 16, 0, 0), 0);
            for (int left = 2; left > 0; left--) {
                struct ibv_wc wc = next_completion(base.cq);
                EXPECT(wc.status, IBV_WC_SUCCESS);
                if (wc.opcode == IBV_WC_RECV)
                    EXPECT(wc.byte_len, all);
            }
            check(to, 16, size);
            fill(from, 16, size + 50);
            EXPECT(post(pair.a, IBV_WR_RDMA_WRITE, 0, from, 16, flat.addr, mr->rkey), 0);
            EXPECT(next_completion(base.cq).status, IBV_WC_SUCCESS);
            /* Behind this it is in place, over all that carries it. */
            EXPECT(post(pair.a, IBV_WR_RDMA_READ, 0, &word, 1, flat.addr, mr->rkey), 0);
            EXPECT(next_completion(base.cq).status, IBV_WC_SUCCESS);
            check(&flat, 1, size + 50);
            fill(&flat, 1, size + 99);
            EXPECT(post(pair.a, IBV_WR_RDMA_READ, 0, from, 16, flat.addr, mr->rkey), 0);
            EXPECT(next_completion(base.cq).status, IBV_WC_SUCCESS);
            check(from, 16, size + 99);
        }
    }
}

/* As many bytes as the device says, of sixteen pieces, which are the program's again at once. */
static void inline_data(void)
{
    struct base base = open_base(256);
    struct pair pair = connect_pair(&base, plain(&base), ALL_RIGHTS, 7);
    char words[1024];
    struct ibv_sge list[16], to = sge(&base, BYTES, 1024);
    for (int turn = 0; turn < 32; turn++) {
        uint32_t each = turn % 2 ? 64 : 5;
        for (int at = 0; at < 16; at++)
            list[at] = (struct ibv_sge){(uintptr_t)words + at * each, each, 0};
        fill(list, 16, turn);
        EXPECT(post_receive(pair.b, &to, 1), 0);
        EXPECT(post(pair.a, IBV_WR_SEND, IBV_SEND_INLINE, list, 16, 0, 0), 0);
        memset(words, 0, sizeof words);
        for (int left = 2; left > 0; left--)
            EXPECT(next_completion(base.cq).status, IBV_WC_SUCCESS);
        struct ibv_sge got = {to.addr, 16 * each, 0};
        check(&got, 1, turn);
    }
}

static const struct one_case CASES[] = {
    {"sixteen-pieces", sixteen_pieces},
    {"inline-data", inline_data},
    {"null", null_arguments},
    {"double-destroy", double_destroy},
    {"destroy-in-use", destroy_in_use},
    {"wrong-domain", wrong_domain},
    {"bad-keys", bad_keys},
    {"rights-of-queue-pairs", rights_of_queue_pairs},
    {"no-receive", no_receive},
    {"overrun", overrun},
    {"every-state", posts_in_every_state},
    {"huge-counts", huge_counts},
    {"lists-that-wrap", lists_that_wrap},
    {"unmapped", unmapped},
    {"deregistered", deregistered},
    {"fork", fork_in_the_middle},
    {"threads", many_threads},
    {"dlclose", closed_library},
    {"thousand-queue-pairs", thousand_queue_pairs},
};

int main(int count, char **words)
{
    return run_cases(CASES, sizeof CASES / sizeof *CASES, count, words);
}
