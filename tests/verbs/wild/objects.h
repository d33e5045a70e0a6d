/* The objects of wild.c: which there are, making and destroying them, the memory that they use, and what is checked of
 * each answer. */
#ifndef OBJECTS_H
#define OBJECTS_H

#include "../contract/pair.h"

#include <fcntl.h>
#include <sys/mman.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define REGIONS 4
#define REGION_BYTES 65536
#define STEADY_BYTES 32768
/* Around each region of memory: never registered, and checked at the end. */
#define MARGIN 4096
#define MARK 0xa5
#define MOST 24
#define MOST_IDS (1 << 20)

/* In the order in which they can be destroyed. */
enum kind { QP, SRQ, CQ, CHANNEL, MR, PD, KINDS };

static const uint64_t WILD_ADDRESSES[] = {0, 1, 4096, UINT64_MAX, UINT64_MAX - 4096, 0x8000000000000000,
                                         0x7ffffffff000};

struct region {
    char *bytes;
    int is_mapped;
};

struct shown {
    int step;
    const char *name;
    /* Of all rounds: completions, and those that say success. */
    unsigned long completions, successes;
};

static struct ibv_context *context;
static union ibv_gid gid;
static void *objects[KINDS][MOST];
static int counts[KINDS];
static struct region regions[REGIONS];
/* Memory that stays, registered with all rights, and its domain. */
static char *steady;
static struct ibv_mr *steady_mr;
static struct ibv_pd *steady_pd;
/* Which completions have come, by their number. Shared by threads. */
static uint8_t *seen;
static uint32_t ids;
static int is_child;
/* For the parent: where the round is. */
static struct shown *shown;

/* --- chance */

static _Thread_local uint64_t state_of_chance;
static uint64_t seeds_of_threads;

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t random64(void)
{
    uint64_t z = state_of_chance += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* Below `bound`; anything for 0. */
static inline uint32_t pick(uint32_t bound)
{
    uint32_t number = (uint32_t)random64();
    return bound == 0 ? number : number % bound;
}

static inline int chance(unsigned percent)
{
    return pick(100) < percent;
}

static inline void random_bytes(void *to, size_t length)
{
    for (size_t at = 0; at < length; at++)
        ((uint8_t *)to)[at] = (uint8_t)random64();
}

static inline void seed_thread(void)
{
    state_of_chance = __atomic_add_fetch(&seeds_of_threads, 0x2545f4914f6cdd1d, __ATOMIC_RELAXED);
}

/* --- answers */

/* 0 or a positive error number. */
static inline void check_number(int result)
{
    if (result < 0 || result > 4095)
        printf("an answer is %d\n", result);
    REQUIRE(result >= 0 && result <= 4095);
}

/* 0, or -1 with errno. */
static inline void check_status(int result)
{
    REQUIRE(result == 0 || (result == -1 && errno > 0) || (result > 0 && result <= 4095));
}

static inline uint64_t next_id(void)
{
    uint32_t id = __atomic_fetch_add(&ids, 1, __ATOMIC_RELAXED);
    REQUIRE(id < MOST_IDS);
    return id;
}

/* A completion is of a request that was posted, and the first of it. */
static inline void completed(const struct ibv_wc *wc)
{
    REQUIRE(wc->status <= IBV_WC_TM_RNDV_INCOMPLETE);
    REQUIRE(wc->wr_id < __atomic_load_n(&ids, __ATOMIC_RELAXED));
    __atomic_fetch_add(&shown->completions, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&shown->successes, wc->status == IBV_WC_SUCCESS, __ATOMIC_RELAXED);
    if (__atomic_fetch_or(&seen[wc->wr_id], 1, __ATOMIC_RELAXED) != 0) {
        printf("request %u completed twice, now as %s, opcode %d\n", (unsigned)wc->wr_id,
               ibv_wc_status_str(wc->status), (int)wc->opcode);
        REQUIRE(is_child);
    }
}

/* --- objects */

static inline void *any(enum kind kind)
{
    return counts[kind] == 0 ? NULL : objects[kind][pick((uint32_t)counts[kind])];
}

static inline struct region *any_region(void)
{
    return &regions[pick(REGIONS)];
}

static inline void add(enum kind kind, void *object)
{
    if (object == NULL)
        REQUIRE(errno > 0);
    else
        objects[kind][counts[kind]++] = object;
    errno = 0;
}

static struct ibv_mr *make_region(struct ibv_pd *pd)
{
    struct region *region = any_region();
    uint64_t at = pick(REGION_BYTES), length = 1 + pick((uint32_t)(REGION_BYTES - at));
    int access = chance(90) ? ALL_RIGHTS : (int)(chance(50) ? pick(64) : pick(0));
    void *address = chance(95) ? region->bytes + at : (void *)(uintptr_t)WILD_ADDRESSES[pick(COUNT(WILD_ADDRESSES))];
    if (chance(3))
        length = random64();
    struct ibv_mr *mr = chance(90) ? (ibv_reg_mr)(pd, address, length, access)
                                   : ibv_reg_mr_iova2(pd, address, length, random64(), (unsigned)access);
    /* One that names other memory than it has would only be refused. */
    return mr;
}

static uint32_t wild_size(void)
{
    static const uint32_t SIZES[] = {0, 1, 2, 16, 64, 200, 16384, 16385, INT32_MAX, UINT32_MAX};
    return chance(80) ? 1 + pick(64) : SIZES[pick(COUNT(SIZES))];
}

static struct ibv_qp *make_queue_pair(struct ibv_pd *pd)
{
    struct ibv_qp_init_attr init = {.send_cq = any(CQ), .recv_cq = any(CQ), .srq = chance(30) ? any(SRQ) : NULL};
    init.cap = (struct ibv_qp_cap){wild_size(), wild_size(), 1 + pick(16), 1 + pick(16), pick(1025)};
    if (chance(5))
        random_bytes(&init.cap, sizeof init.cap);
    static const enum ibv_qp_type TYPES[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC};
    init.qp_type = chance(97) ? TYPES[pick(COUNT(TYPES))] : (enum ibv_qp_type)pick(0);
    init.sq_sig_all = chance(50);
    return ibv_create_qp(pd, &init);
}

static struct ibv_comp_channel *make_channel(void)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    if (channel != NULL)
        fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
    return channel;
}

static void create(enum kind kind)
{
    struct ibv_srq_init_attr shared = {.attr = {wild_size(), 1 + pick(17), pick(4)}};
    struct ibv_pd *pd = chance(80) ? steady_pd : chance(95) ? any(PD) : NULL;
    if (counts[kind] == MOST)
        return;
    errno = 0;
    switch (kind) {
    case QP:
        add(kind, make_queue_pair(pd));
        break;
    case SRQ:
        add(kind, ibv_create_srq(pd, &shared));
        break;
    case CQ:
        add(kind, ibv_create_cq(context, (int)wild_size(), NULL, chance(50) ? any(CHANNEL) : NULL,
                                chance(95) ? 0 : (int)pick(0)));
        break;
    case CHANNEL:
        add(kind, make_channel());
        break;
    case MR:
        add(kind, make_region(pd));
        break;
    default:
        add(kind, ibv_alloc_pd(context));
    }
}

static void create_any(void)
{
    static const enum kind KINDS_MADE[] = {QP, QP, QP, MR, MR, CQ, SRQ, CHANNEL, PD};
    create(KINDS_MADE[pick(COUNT(KINDS_MADE))]);
}

static int destroy_one(enum kind kind, void *object)
{
    switch (kind) {
    case QP:
        return ibv_destroy_qp(object);
    case SRQ:
        return ibv_destroy_srq(object);
    case CQ:
        return ibv_destroy_cq(object);
    case CHANNEL:
        return ibv_destroy_comp_channel(object);
    case MR:
        return ibv_dereg_mr(object);
    default:
        return ibv_dealloc_pd(object);
    }
}

static void destroy(enum kind kind, int at)
{
    void *object = objects[kind][at];
    int result = destroy_one(kind, object);
    check_number(result);
    if (result != 0) {
        EXPECT(result, EBUSY);
        return;
    }
    EXPECT(destroy_one(kind, object), EINVAL);
    EXPECT(destroy_one(kind, NULL), EINVAL);
    objects[kind][at] = objects[kind][--counts[kind]];
}

static void destroy_any(void)
{
    enum kind kind = (enum kind)pick(KINDS);
    if (counts[kind] > 0)
        destroy(kind, (int)pick((uint32_t)counts[kind]));
}

/* What may be changed of an object. */
static void change_any(void)
{
    struct ibv_cq *cq = any(CQ);
    struct ibv_srq *srq = any(SRQ);
    struct ibv_mr *mr = any(MR);
    struct ibv_srq_attr attr = {wild_size(), pick(20), pick(100)};
    if (cq != NULL && chance(50))
        check_number(ibv_resize_cq(cq, (int)wild_size()));
    if (srq != NULL)
        check_number(ibv_modify_srq(srq, &attr, (int)(chance(80) ? IBV_SRQ_LIMIT : pick(0))));
    if (srq != NULL)
        check_number(ibv_query_srq(srq, &attr));
    if (mr != NULL && chance(50)) {
        struct region *region = any_region();
        int flags = (int)pick(8);
        int result = ibv_rereg_mr(mr, flags, any(PD), region->bytes, 1 + pick(REGION_BYTES), ALL_RIGHTS);
        REQUIRE(result >= -4 && result <= 4095);
    }
}

/* --- memory */

static void map(struct region *region)
{
    char *all = region->bytes == NULL ? NULL : region->bytes - MARGIN;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (all == NULL ? 0 : MAP_FIXED);
    all = mmap(all, REGION_BYTES + 2 * MARGIN, PROT_READ | PROT_WRITE, flags, -1, 0);
    REQUIRE(all != MAP_FAILED);
    memset(all, MARK, MARGIN);
    memset(all + MARGIN + REGION_BYTES, MARK, MARGIN);
    region->bytes = all + MARGIN;
    region->is_mapped = 1;
}

static void check_margins(const struct region *region)
{
    for (int at = 0; at < MARGIN; at++) {
        EXPECT((uint8_t)region->bytes[at - MARGIN], MARK);
        EXPECT((uint8_t)region->bytes[at + REGION_BYTES], MARK);
    }
}

/* Memory goes while work uses it, and comes again, or is read-only for a while. Its place stays the region's. */
static void move_memory(void)
{
    struct region *region = any_region();
    if (!region->is_mapped) {
        map(region);
    } else if (chance(50)) {
        check_margins(region);
        char *all = region->bytes - MARGIN;
        REQUIRE(mmap(all, REGION_BYTES + 2 * MARGIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == all);
        region->is_mapped = 0;
    } else {
        REQUIRE(mprotect(region->bytes, REGION_BYTES, chance(50) ? PROT_READ : PROT_READ | PROT_WRITE) == 0);
    }
}

/* --- a round */

/* Before the first fork. */
static void prepare(void)
{
    shown = mmap(NULL, sizeof *shown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shown != MAP_FAILED);
}

static void open_all(uint64_t seed)
{
    state_of_chance = seed;
    seeds_of_threads = seed;
    context = open_device();
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
    EXPECT(ibv_query_gid(context, 1, 0, &gid), 0);
    seen = calloc(1, MOST_IDS);
    steady = calloc(1, STEADY_BYTES);
    steady_pd = ibv_alloc_pd(context);
    REQUIRE(seen != NULL && steady != NULL && steady_pd != NULL);
    steady_mr = ibv_reg_mr(steady_pd, steady, STEADY_BYTES, ALL_RIGHTS);
    REQUIRE(steady_mr != NULL);
    for (int at = 0; at < REGIONS; at++)
        map(&regions[at]);
    /* What the rest is made of. */
    static const enum kind FIRST[] = {PD, CHANNEL, CQ, CQ, MR, MR, MR, SRQ, QP, QP, QP, QP};
    for (size_t at = 0; at < COUNT(FIRST); at++)
        create(FIRST[at]);
}

/* All can be destroyed, and no memory has changed that was not the NIC's. */
static void close_all(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        while (counts[kind] > 0) {
            int before = counts[kind];
            destroy((enum kind)kind, before - 1);
            EXPECT(counts[kind], before - 1);
        }
    for (int at = 0; at < REGIONS; at++)
        if (regions[at].is_mapped)
            check_margins(&regions[at]);
    EXPECT(ibv_dereg_mr(steady_mr), 0);
    EXPECT(ibv_dealloc_pd(steady_pd), 0);
    EXPECT(ibv_close_device(context), 0);
}

#endif
