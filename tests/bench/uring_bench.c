/* What io_uring has to offer for messages over TCP, one thing at a time: two threads send each
 * other as many bytes over one socket and add up what comes, as the engines of the backend tcp do.
 * The ways take turns; medians of us an exchange. `uring_bench SIZES TURNS`; figures: notes.md. */
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/bench/bench.h"

enum {
    AT_ONCE = 256 << 10, /* as TUTTI_TCP_AT_ONCE */
    PIECE = 128 << 10,   /* as TUTTI_TCP_PIECE */
    ENTRIES = 64,
    BUFFERS = 16, /* provided: 2 MiB */
    SIZES_MAX = 32,
    TURNS_MAX = 32,
};

enum way {
    POLL,      /* send and recv without waiting: no io_uring */
    PLAIN,     /* as runtime/exec/transport/tcp/uring has it */
    FIXED,     /* buffers registered, READ_FIXED and WRITE_FIXED */
    PROVIDED,  /* a ring of provided buffers, one recv at a time */
    MULTISHOT, /* and one recv for all */
    ZERO_COPY, /* SEND_ZC */
    ZERO_COPY_FIXED,
    WAYS
};

static const char *const names[WAYS] = {"poll",      "plain",   "fixed",   "provided",
                                        "multishot", "send_zc", "zc+fixed"};

struct side {
    enum way way;
    uint64_t bytes;
    uint32_t iterations;
    int fd;
    int processor;
    float *src;
    float *sum;
    char *pieces; /* [BUFFERS * PIECE]; the first alone where none are provided */
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    bool armed; /* MULTISHOT: the recv is under way */
    uint64_t early_bytes;
    double took_us;
    const char *failed; /* what; NULL: nothing */
};

static pthread_barrier_t start;

static void add(struct side *side, const char *piece, uint64_t bytes)
{
    const float *from = (const float *)piece;

    for (uint64_t i = 0; i < bytes / sizeof(float); i++)
        side->sum[i] += from[i];
}

/* ---- without io_uring ---- */

static bool exchange_by_poll(struct side *side)
{
    uint64_t went = 0;
    uint64_t came = 0;

    while (went < side->bytes || came < side->bytes) {
        uint64_t left = side->bytes - went < AT_ONCE ? side->bytes - went : AT_ONCE;
        ssize_t n =
            left == 0 ? 0
                      : send(side->fd, (char *)side->src + went, left, MSG_DONTWAIT | MSG_NOSIGNAL);

        went += n > 0 ? (uint64_t)n : 0;
        left = side->bytes - came < PIECE ? side->bytes - came : PIECE;
        n = left == 0 ? -1 : recv(side->fd, side->pieces, left, MSG_DONTWAIT);
        if (n == 0)
            return false;
        if (n > 0)
            add(side, side->pieces, (uint64_t)n);
        came += n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

/* ---- with it ---- */

enum { SENT = 1, CAME, NOTIFIED };

static bool provides(const struct side *side)
{
    return side->way == PROVIDED || side->way == MULTISHOT;
}

static void provide(struct side *side, int buffer)
{
    io_uring_buf_ring_add(side->buffers, side->pieces + (size_t)buffer * PIECE, PIECE,
                          (unsigned short)buffer, io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(side->buffers, 1);
}

static void hand_out(struct side *side, uint64_t went)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&side->ring);
    uint64_t left = side->bytes - went < AT_ONCE ? side->bytes - went : AT_ONCE;
    char *at = (char *)side->src + went;

    if (side->way == FIXED)
        io_uring_prep_write_fixed(sqe, side->fd, at, (unsigned)left, 0, 0);
    else if (side->way == ZERO_COPY)
        io_uring_prep_send_zc(sqe, side->fd, at, left, MSG_NOSIGNAL, 0);
    else if (side->way == ZERO_COPY_FIXED)
        io_uring_prep_send_zc_fixed(sqe, side->fd, at, left, MSG_NOSIGNAL, 0, 0);
    else
        io_uring_prep_send(sqe, side->fd, at, left, MSG_NOSIGNAL);
    sqe->user_data = SENT;
}

static void take_in(struct side *side, uint64_t came)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&side->ring);
    uint64_t left = side->bytes - came < PIECE ? side->bytes - came : PIECE;

    if (side->way == MULTISHOT)
        io_uring_prep_recv_multishot(sqe, side->fd, NULL, 0, 0);
    else if (side->way == PROVIDED)
        io_uring_prep_recv(sqe, side->fd, NULL, left, 0);
    else if (side->way == FIXED)
        io_uring_prep_read_fixed(sqe, side->fd, side->pieces, (unsigned)left, 0, 1);
    else
        io_uring_prep_recv(sqe, side->fd, side->pieces, left, 0);
    if (provides(side)) {
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = 0;
    }
    sqe->user_data = CAME;
}

struct under_way {
    uint64_t went;
    uint64_t came;
    bool sending;
    uint32_t notices; /* SEND_ZC: the system still reads from there */
};

static bool completed(struct side *side, struct under_way *now, const struct io_uring_cqe *cqe)
{
    bool none_left = cqe->res == -ENOBUFS || cqe->res == -EAGAIN;

    if ((cqe->flags & IORING_CQE_F_NOTIF) != 0) {
        now->notices--;
        return true;
    }
    if (cqe->user_data == SENT) {
        now->sending = false;
        now->notices += (cqe->flags & IORING_CQE_F_MORE) != 0;
        now->went += cqe->res > 0 ? (uint64_t)cqe->res : 0;
        return cqe->res > 0 || none_left;
    }
    side->armed = (cqe->flags & IORING_CQE_F_MORE) != 0;
    if (cqe->res > 0 && provides(side)) {
        int buffer = (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);

        add(side, side->pieces + (size_t)buffer * PIECE, (uint64_t)cqe->res);
        provide(side, buffer);
    } else if (cqe->res > 0) {
        add(side, side->pieces, (uint64_t)cqe->res);
    }
    now->came += cqe->res > 0 ? (uint64_t)cqe->res : 0;
    return cqe->res > 0 || none_left;
}

static bool exchange_by_uring(struct side *side)
{
    struct under_way now = {.came = side->early_bytes};
    struct io_uring_cqe *cqe;

    while (now.went < side->bytes || now.came < side->bytes || now.notices > 0) {
        if (!now.sending && now.went < side->bytes) {
            hand_out(side, now.went);
            now.sending = true;
        }
        if (!side->armed && now.came < side->bytes) {
            take_in(side, now.came);
            side->armed = true;
        }
        if (io_uring_sq_ready(&side->ring) > 0 && io_uring_submit(&side->ring) < 0)
            return false;
        while (io_uring_peek_cqe(&side->ring, &cqe) == 0) {
            bool well = completed(side, &now, cqe);

            io_uring_cqe_seen(&side->ring, cqe);
            if (!well)
                return false;
        }
    }
    side->early_bytes = now.came - side->bytes; /* MULTISHOT: of the next one already */
    return true;
}

static const char *open_ring(struct side *side)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER |
                                              IORING_SETUP_DEFER_TASKRUN |
                                              IORING_SETUP_TASKRUN_FLAG};
    struct iovec fixed[2] = {{side->src, side->bytes}, {side->pieces, PIECE}};

    if (io_uring_queue_init_params(ENTRIES, &side->ring, &params) < 0)
        return "no io_uring of this kind here";
    (void)io_uring_register_ring_fd(&side->ring);
    if ((side->way == FIXED || side->way == ZERO_COPY_FIXED) &&
        io_uring_register_buffers(&side->ring, fixed, 2) < 0)
        return "buffers cannot be registered (RLIMIT_MEMLOCK)";
    if (!provides(side))
        return NULL;
    side->buffers = aligned_alloc(4096, 4096);
    if (side->buffers == NULL)
        return "out of memory";
    memset(side->buffers, 0, 4096);
    if (io_uring_register_buf_ring(&side->ring,
                                   &(struct io_uring_buf_reg){
                                       .ring_addr = (uint64_t)(uintptr_t)side->buffers,
                                       .ring_entries = BUFFERS,
                                   },
                                   0) < 0)
        return "buffers cannot be provided";
    io_uring_buf_ring_init(side->buffers);
    for (int i = 0; i < BUFFERS; i++)
        provide(side, i);
    return NULL;
}

static void *run(void *data)
{
    struct side *side = data;
    uint32_t warmups = side->iterations / 10 + 1;
    double began_us = 0;
    cpu_set_t own;

    CPU_ZERO(&own);
    CPU_SET((size_t)side->processor, &own);
    (void)pthread_setaffinity_np(pthread_self(), sizeof(own), &own);
    if (side->way != POLL)
        side->failed = open_ring(side);
    pthread_barrier_wait(&start);
    for (uint32_t i = 0; side->failed == NULL && i < warmups + side->iterations; i++) {
        if (i == warmups)
            began_us = bench_now_us();
        if (side->way == POLL ? !exchange_by_poll(side) : !exchange_by_uring(side)) {
            side->failed = "the exchange has failed";
            (void)shutdown(side->fd, SHUT_RDWR);
        }
    }
    side->took_us = (bench_now_us() - began_us) / side->iterations;
    if (side->failed != NULL)
        (void)shutdown(side->fd, SHUT_RDWR);
    if (side->way != POLL && side->ring.ring_fd > 0)
        io_uring_queue_exit(&side->ring);
    free(side->buffers);
    return NULL;
}

/* ---- both sides ---- */

static bool connect_both(int fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[1] = -1;
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &bytes) == 0 &&
        connect(fds[0], (struct sockaddr *)&address, sizeof(address)) == 0)
        fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    for (int i = 0; i < 2; i++) {
        (void)setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(fds[i], IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    }
    return fds[1] >= 0;
}

/* us an exchange; below 0: *ret_failed says what is wrong. */
static double measure(enum way way, uint64_t bytes, uint32_t turns, const char **ret_failed)
{
    struct side sides[2] = {{.way = way}, {.way = way}};
    pthread_t threads[2];
    int fds[2];
    double took_us = -1;

    *ret_failed = "cannot connect";
    if (!connect_both(fds))
        return -1;
    for (int i = 0; i < 2; i++) {
        struct side *side = &sides[i];

        side->bytes = bytes;
        side->iterations = turns > 1 ? bench_iterations(bytes) : 2;
        side->fd = fds[i];
        side->processor = i % (int)sysconf(_SC_NPROCESSORS_ONLN);
        side->src = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        side->sum = calloc(1, PIECE);
        side->pieces = aligned_alloc(4096, (size_t)BUFFERS * PIECE);
        if (side->src == NULL || side->sum == NULL || side->pieces == NULL)
            exit(1);
        memset(side->src, 0, bytes);
    }
    pthread_barrier_init(&start, NULL, 2);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, run, &sides[i]) != 0)
            exit(1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    *ret_failed = sides[0].failed != NULL ? sides[0].failed : sides[1].failed;
    if (*ret_failed == NULL)
        took_us = sides[0].took_us > sides[1].took_us ? sides[0].took_us : sides[1].took_us;
    for (int i = 0; i < 2; i++) {
        free(sides[i].src);
        free(sides[i].sum);
        free(sides[i].pieces);
        close(fds[i]);
    }
    return took_us;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

static void print_size(uint64_t bytes, uint32_t turns)
{
    double took_us[WAYS][TURNS_MAX];
    const char *failed[WAYS] = {NULL};

    for (uint32_t turn = 0; turn < turns; turn++)
        for (int way = 0; way < WAYS; way++)
            if (failed[way] == NULL)
                took_us[way][turn] = measure((enum way)way, bytes, turns, &failed[way]);
    printf("%10llu", (unsigned long long)bytes);
    for (int way = 0; way < WAYS; way++) {
        qsort(took_us[way], turns, sizeof(double), compare);
        if (failed[way] != NULL)
            printf("  %9s", "-");
        else
            printf("  %9.1f", took_us[way][turns / 2]);
    }
    printf("\n");
    for (int way = 0; way < WAYS; way++)
        if (failed[way] != NULL)
            printf("# %s: %s\n", names[way], failed[way]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    uint64_t sizes[SIZES_MAX];
    size_t count =
        bench_sizes(argc > 1 ? argv[1] : "4096,65536,1048576,16777216", sizes, SIZES_MAX);
    uint32_t turns = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 9;
    struct rlimit limit;

    if (count == 0 || turns == 0 || turns > TURNS_MAX) {
        fprintf(stderr, "uring_bench [SIZE,SIZE... [TURNS up to %d]]\n", TURNS_MAX);
        return 2;
    }
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_MEMLOCK, &limit);
    }
    printf("# us an exchange both ways, median of %u turns\n%10s", turns, "bytes");
    for (int way = 0; way < WAYS; way++)
        printf("  %9s", names[way]);
    printf("\n");
    for (size_t i = 0; i < count; i++)
        print_size(sizes[i], turns);
    return 0;
}
