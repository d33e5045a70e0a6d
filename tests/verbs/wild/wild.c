/* A caller of libibverbs that keeps to no rule: random calls in random order, with random arguments. Each answer must
 * be success or an error number, no completion may come twice, memory that is not registered may not change, and the
 * process must live, and end.
 *
 * wild [--seed N] [--seconds N] [--rounds N] [--steps N]
 *
 * Round R runs with the seed N + R in a process of its own: `--seed N --rounds 1` plays one again. */
#include "objects.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define THREADS 16
#define ROUND_SECONDS 60

/* --- posts: anything that a work request can say */

/* How many posts of a hundred may succeed, as far as it is up to them. */
static _Thread_local unsigned tame_percent = 85;

/* One that may succeed. */
static struct ibv_sge tame_sge(void)
{
    uint32_t at = pick(STEADY_BYTES - 4096);
    return (struct ibv_sge){(uintptr_t)steady + at, chance(10) ? pick(4096) : pick(64), steady_mr->lkey};
}

static struct ibv_sge wild_sge(int is_inline)
{
    struct region *region = any_region();
    uint64_t start = (uintptr_t)region->bytes;
    struct ibv_sge sge = {start + pick(REGION_BYTES), pick(600), 0};
    struct ibv_mr *mr = any(MR);
    /* Inline bytes are the program's own, and read at once: they must be there. */
    if (is_inline) {
        sge.addr = (uintptr_t)steady + pick(1024);
        sge.length = pick(chance(20) ? 2000 : 200);
        return sge;
    }
    if (mr != NULL && chance(90)) {
        sge.lkey = mr->lkey;
        if (chance(90)) {
            sge.addr = (uintptr_t)mr->addr + pick((uint32_t)(mr->length < 4096 ? mr->length : 4096));
            sge.length = pick(chance(20) ? 8192 : 64);
        }
    } else {
        sge.lkey = pick(0);
    }
    if (chance(5))
        sge.length = pick(0);
    if (chance(3))
        sge.addr = WILD_ADDRESSES[pick(COUNT(WILD_ADDRESSES))];
    return sge;
}

static int wild_list(struct ibv_sge *list, int is_inline)
{
    int count = (int)pick(chance(20) ? 17 : 4);
    for (int at = 0; at < 17; at++)
        list[at] = wild_sge(is_inline);
    if (chance(3))
        count = chance(50) ? -1 : INT32_MAX;
    return count;
}

#define MOST_IN_A_LIST 4

/* What a program would post that knows what it does. */
static void tame(struct ibv_send_wr *wr, struct ibv_sge *list)
{
    wr->opcode = (enum ibv_wr_opcode)pick(7);
    int is_atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr->num_sge = is_atomic ? 1 : (int)pick(4);
    wr->send_flags = chance(70) ? IBV_SEND_SIGNALED : 0;
    for (int at = 0; at < 4; at++)
        list[at] = tame_sge();
    if (is_atomic)
        list[0].length = 8;
    wr->wr.atomic.remote_addr = (uintptr_t)steady + pick(STEADY_BYTES - 16384) / 8 * 8;
    if (is_atomic)
        wr->wr.atomic.rkey = steady_mr->rkey;
    else
        wr->wr.rdma.rkey = steady_mr->rkey;
}

static void post_send(struct ibv_qp *qp)
{
    struct ibv_sge lists[MOST_IN_A_LIST][17];
    struct ibv_send_wr wrs[MOST_IN_A_LIST], *bad = NULL;
    int count = 1 + (int)pick(MOST_IN_A_LIST), is_tame = chance(tame_percent);
    for (int at = 0; at < count; at++) {
        int is_inline = chance(20);
        struct ibv_mr *mr = any(MR);
        uint64_t to = mr == NULL || chance(5) ? random64() : (uintptr_t)mr->addr + pick(4096) / 8 * 8;
        uint32_t rkey = mr == NULL || chance(5) ? pick(0) : mr->rkey;
        struct ibv_send_wr *wr = &wrs[at];
        memset(wr, 0, sizeof *wr);
        wr->wr_id = next_id();
        wr->next = at + 1 < count ? wr + 1 : NULL;
        wr->opcode = chance(95) ? (enum ibv_wr_opcode)pick(7) : (enum ibv_wr_opcode)pick(0);
        wr->send_flags = (chance(95) ? pick(8) : pick(0)) & ~(unsigned)IBV_SEND_INLINE;
        wr->num_sge = wild_list(lists[at], is_inline);
        wr->sg_list = lists[at];
        wr->send_flags |= is_inline ? IBV_SEND_INLINE : 0;
        wr->imm_data = pick(0);
        wr->wr.atomic.remote_addr = to;
        if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            wr->wr.atomic.compare_add = random64();
            wr->wr.atomic.swap = random64();
            wr->wr.atomic.rkey = rkey;
        } else {
            wr->wr.rdma.rkey = rkey;
        }
        if (is_tame)
            tame(wr, lists[at]);
    }
    struct ibv_send_wr *first = chance(1) ? NULL : wrs;
    int result = ibv_post_send(qp, first, &bad);
    check_number(result);
    if (result != 0 && first != NULL)
        REQUIRE(bad >= wrs && bad < wrs + count);
}

static void post_receive_to(struct ibv_qp *qp, struct ibv_srq *srq)
{
    struct ibv_sge lists[MOST_IN_A_LIST][17];
    struct ibv_recv_wr wrs[MOST_IN_A_LIST], *bad = NULL;
    int count = 1 + (int)pick(MOST_IN_A_LIST), is_tame = chance(tame_percent);
    for (int at = 0; at < count; at++) {
        wrs[at] = (struct ibv_recv_wr){.wr_id = next_id(), .next = at + 1 < count ? &wrs[at + 1] : NULL};
        wrs[at].num_sge = wild_list(lists[at], 0);
        wrs[at].sg_list = lists[at];
        if (is_tame) {
            lists[at][0] = tame_sge();
            lists[at][0].length = 4096;
            wrs[at].num_sge = 1;
        }
    }
    int result = srq == NULL ? ibv_post_recv(qp, wrs, &bad) : ibv_post_srq_recv(srq, wrs, &bad);
    check_number(result);
    if (result != 0)
        REQUIRE(bad >= wrs && bad < wrs + count);
}

static void poll(struct ibv_cq *cq)
{
    struct ibv_wc wc[16];
    int wanted = chance(5) ? -(int)pick(3) : (int)pick(16) + 1;
    int count = ibv_poll_cq(cq, wanted, wc);
    REQUIRE(count <= (wanted > 0 ? wanted : 0));
    for (int at = 0; at < count; at++)
        completed(&wc[at]);
}

/* --- queue pairs */

static void wild_modify(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    random_bytes(&attr, sizeof attr);
    if (chance(80))
        attr.qp_state = (enum ibv_qp_state)pick(8);
    if (chance(80))
        attr.port_num = 1;
    check_number(ibv_modify_qp(qp, &attr, (int)(chance(50) ? IBV_QP_STATE : pick(0))));
}

/* A step that a program may take: towards another queue pair, itself, or no peer. */
static void step_of(struct ibv_qp *qp)
{
    struct ibv_qp *peer = any(QP);
    uint32_t number = peer == NULL || chance(10) ? pick(1 << 24) : peer->qp_num;
    struct ibv_qp_attr attr = {.qp_state = chance(50) ? IBV_QPS_RESET : IBV_QPS_ERR};
    switch (pick(12)) {
    case 0:
        check_number(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
        break;
    case 1: case 2: case 3:
        check_number(to_init(qp, chance(80) ? ALL_RIGHTS : (int)pick(0)));
        break;
    case 4: case 5: case 6: case 7:
        check_number(to_rtr(qp, gid, number));
        break;
    default:
        check_number(to_rts(qp, (int)pick(8)));
    }
}

/* Both ends of a pair, so that work flows. */
static void connect_ends(struct ibv_qp *const ends[2])
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    for (int end = 0; end < 2; end++) {
        check_number(ibv_modify_qp(ends[end], &attr, IBV_QP_STATE));
        check_number(to_init(ends[end], ALL_RIGHTS));
    }
    for (int end = 0; end < 2; end++) {
        check_number(to_rtr(ends[end], gid, ends[1 - end]->qp_num));
        check_number(to_rts(ends[end], (int)pick(8)));
    }
}

static void connect_two(void)
{
    if (counts[QP] > 0)
        connect_ends((struct ibv_qp *[2]){any(QP), any(QP)});
}

/* Work between two for a while. */
static void flow(void)
{
    if (counts[QP] == 0)
        return;
    struct ibv_qp *ends[2] = {any(QP), any(QP)};
    tame_percent = 99;
    connect_ends(ends);
    for (int turn = 0; turn < 40; turn++) {
        struct ibv_qp *end = ends[turn % 2], *other = ends[1 - turn % 2];
        post_receive_to(other, other->srq);
        post_send(end);
        for (int polls = 0; polls < 40; polls++)
            poll(polls % 2 ? end->send_cq : other->recv_cq);
    }
    tame_percent = 85;
}

static void query(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    check_number(ibv_query_qp(qp, &attr, (int)pick(0), &init));
    REQUIRE(attr.qp_state <= IBV_QPS_ERR);
}

/* --- many threads at one queue pair, and a fork in the middle */

static void *hammer(void *given)
{
    struct ibv_qp *qp = given;
    seed_thread();
    for (int turn = 0; turn < 40; turn++)
        switch (pick(8)) {
        case 0: case 1: case 2:
            post_send(qp);
            break;
        case 3:
            if (qp->srq == NULL)
                post_receive_to(qp, NULL);
            break;
        case 4: case 5:
            poll(chance(50) ? qp->send_cq : qp->recv_cq);
            break;
        case 6:
            query(qp);
            break;
        default:
            if (chance(20))
                wild_modify(qp);
            else
                step_of(qp);
        }
    return NULL;
}

static void many_threads(void)
{
    pthread_t threads[THREADS];
    struct ibv_qp *qp = any(QP);
    if (qp == NULL)
        return;
    for (int at = 0; at < THREADS; at++)
        REQUIRE(pthread_create(&threads[at], NULL, hammer, qp) == 0);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
}

static void fork_in_the_middle(void)
{
    int ended = 0;
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(ROUND_SECONDS / 2);
        struct ibv_qp *qp = any(QP);
        struct ibv_cq *cq = any(CQ);
        /* A child owns nothing of it: errors, but no crash. */
        is_child = 1;
        for (int turn = 0; turn < 8; turn++) {
            if (qp != NULL && chance(50))
                post_send(qp);
            if (qp != NULL && qp->srq == NULL && chance(50))
                post_receive_to(qp, NULL);
            if (cq != NULL && chance(50))
                poll(cq);
            if (qp != NULL && chance(50))
                step_of(qp);
        }
        if (chance(50))
            ibv_close_device(open_device());
        _exit(0);
    }
    REQUIRE(waitpid(child, &ended, 0) == child);
    if (ended != 0)
        printf("the child of the fork ended with %#x\n", ended);
    REQUIRE(ended == 0);
}

/* --- what all has */

static void ask(void)
{
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    union ibv_gid found;
    __be16 key;
    check_number(ibv_query_device(context, &device));
    check_number(ibv_query_port(context, (uint8_t)pick(4), &port));
    check_status(ibv_query_gid(context, (uint8_t)pick(3), chance(80) ? (int)pick(8) : (int)pick(0), &found));
    check_status(ibv_query_pkey(context, (uint8_t)pick(3), chance(80) ? (int)pick(3) : (int)pick(0), &key));
}

static void events(void)
{
    struct ibv_async_event event;
    struct ibv_comp_channel *channel = any(CHANNEL);
    struct ibv_cq *cq = any(CQ);
    void *user;
    while (ibv_get_async_event(context, &event) == 0)
        ibv_ack_async_event(&event);
    if (cq != NULL)
        check_number(ibv_req_notify_cq(cq, (int)pick(3)));
    if (channel != NULL && ibv_get_cq_event(channel, &cq, &user) == 0)
        ibv_ack_cq_events(cq, 1);
}

#define ON(function, kind)                        \
    static void do_##function(void)               \
    {                                             \
        void *object = any(kind);                 \
        if (object != NULL)                       \
            function(object);                     \
    }
ON(post_send, QP)
ON(poll, CQ)
ON(wild_modify, QP)
ON(step_of, QP)
ON(query, QP)

static void do_post_receive(void)
{
    struct ibv_qp *qp = any(QP);
    if (qp != NULL)
        post_receive_to(qp, NULL);
}

static void do_post_shared(void)
{
    struct ibv_srq *srq = any(SRQ);
    if (srq != NULL)
        post_receive_to(NULL, srq);
}

static const struct {
    const char *name;
    unsigned weight;
    void (*run)(void);
} STEPS[] = {
    {"create", 18, create_any},
    {"destroy", 6, destroy_any},
    {"connect_two", 10, connect_two},
    {"flow", 3, flow},
    {"step_of", 8, do_step_of},
    {"wild_modify", 4, do_wild_modify},
    {"post_send", 30, do_post_send},
    {"post_receive", 16, do_post_receive},
    {"post_shared", 6, do_post_shared},
    {"poll", 30, do_poll},
    {"query", 3, do_query},
    {"ask", 2, ask},
    {"events", 8, events},
    {"change", 6, change_any},
    {"memory", 3, move_memory},
    {"threads", 1, many_threads},
    {"fork", 1, fork_in_the_middle},
};

static void round_of(uint64_t seed, int steps)
{
    alarm(ROUND_SECONDS);
    open_all(seed);
    unsigned all = 0;
    for (size_t at = 0; at < COUNT(STEPS); at++)
        all += STEPS[at].weight;
    for (int step = 0; step < steps; step++) {
        unsigned chosen = pick(all), at = 0;
        while (chosen >= STEPS[at].weight)
            chosen -= STEPS[at++].weight;
        shown->step = step;
        shown->name = STEPS[at].name;
        STEPS[at].run();
    }
    shown->name = "the end";
    close_all();
}

int main(int count, char **words)
{
    uint64_t seed = (uint64_t)time(NULL);
    long seconds = 0, rounds = 1, steps = 400;
    for (int at = 1; at + 1 < count; at += 2) {
        long value = strtol(words[at + 1], NULL, 0);
        if (strcmp(words[at], "--seed") == 0)
            seed = (uint64_t)value;
        else if (strcmp(words[at], "--seconds") == 0)
            seconds = value;
        else if (strcmp(words[at], "--rounds") == 0)
            rounds = value;
        else if (strcmp(words[at], "--steps") == 0)
            steps = value;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    prepare();
    time_t end = time(NULL) + seconds;
    long done = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    for (; done < rounds || time(NULL) < end; done++) {
        int ended = 0;
        uint64_t own = seed + (uint64_t)done;
        pid_t child = fork();
        if (child == 0) {
            round_of(own, (int)steps);
            exit(0);
        }
        if (waitpid(child, &ended, 0) == child && ended == 0)
            continue;
        printf("failed with --seed %llu --rounds 1, step %d (%s): ", (unsigned long long)own, shown->step,
               shown->name);
        if (WIFSIGNALED(ended) && WTERMSIG(ended) == SIGALRM)
            printf("it did not end within %d s\n", ROUND_SECONDS);
        else
            printf("%s %d\n", WIFSIGNALED(ended) ? "signal" : "exit code",
                   WIFSIGNALED(ended) ? WTERMSIG(ended) : WEXITSTATUS(ended));
        return 1;
    }
    printf("passed %ld rounds, %lu completions, %lu of them successes\n", done, shown->completions, shown->successes);
    return 0;
}
