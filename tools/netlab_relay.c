/* netlab_relay: a switch of TAP devices that lets every frame arrive later, for tools/netlab on
 * kernels without netem. Each port is a TAP device in a network namespace; a frame from port a to
 * port b leaves latency(a) + latency(b) after it came, and no faster than the rate of port b lets
 * it: a token bucket, reckoned as in sim/net/net.h. Frames stay in order; none is lost but those
 * that --loss draws: when the memory is full, ports wait. Frames that the kernel has not cut up
 * yet (GSO) pass as they are, or are lost as they are. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/units.h"

enum {
    PORTS_MAX = 64,
    WORDS = 5, /* of a port, on the command line */
    FRAMES = 8192,
    FRAME_BYTES = 1 << 17, /* addresses, not memory: pages come when they are touched */
    ADDRESS_BYTES = 6,
    HEADER_BYTES = sizeof(struct virtio_net_hdr),
    READS_MAX = 16,    /* in a row, before those that are due leave */
    DOWN_NS = 1000000, /* between two looks at ports that are down */
};

struct frame {
    int64_t leave_ns;
    uint64_t number; /* ties: in order of arrival */
    uint32_t bytes;
    uint32_t port;
    uint32_t slot; /* in the memory */
};

struct port {
    int fd;
    int64_t latency_ns;
    uint64_t bytes_per_s; /* 0: any */
    int64_t burst_ns;
    int64_t full_ns; /* when its bucket is full again */
    uint8_t address[ADDRESS_BYTES];
    bool known;
};

struct relay {
    struct port ports[PORTS_MAX];
    uint32_t port_count;
    uint8_t *memory;
    uint32_t slots[FRAMES]; /* those that are free */
    uint32_t slot_count;
    struct frame heap[FRAMES]; /* the first to leave is on top */
    uint32_t frame_count;
    uint64_t arrived_count;
    uint64_t loss_ppm; /* of the frames */
    struct tutti_random dice;
};

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- frames under way ------------------------------------------------------------------------ */

static bool leaves_before(const struct frame *a, const struct frame *b)
{
    return a->leave_ns != b->leave_ns ? a->leave_ns < b->leave_ns : a->number < b->number;
}

static void put(struct relay *relay, const struct frame *frame)
{
    uint32_t at = relay->frame_count++;

    while (at > 0 && leaves_before(frame, &relay->heap[(at - 1) / 2])) {
        relay->heap[at] = relay->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    relay->heap[at] = *frame;
}

static struct frame take(struct relay *relay)
{
    struct frame first = relay->heap[0];
    struct frame last = relay->heap[--relay->frame_count];
    uint32_t at = 0;

    for (uint32_t child = 1; child < relay->frame_count; child = 2 * at + 1) {
        if (child + 1 < relay->frame_count &&
            leaves_before(&relay->heap[child + 1], &relay->heap[child]))
            child++;
        if (!leaves_before(&relay->heap[child], &last))
            break;
        relay->heap[at] = relay->heap[child];
        at = child;
    }
    relay->heap[at] = last;
    return first;
}

static uint8_t *bytes_of(const struct relay *relay, uint32_t slot)
{
    return relay->memory + (size_t)slot * FRAME_BYTES;
}

/* What the frame weighs on the wire: as many headers as there will be packets. */
static uint64_t wire_bytes(const uint8_t *bytes, uint32_t count)
{
    struct virtio_net_hdr header;
    uint64_t frame = count - HEADER_BYTES;
    uint64_t packets = 1;

    memcpy(&header, bytes, sizeof(header));
    if (header.gso_type == VIRTIO_NET_HDR_GSO_NONE || header.gso_size == 0 ||
        header.hdr_len >= frame)
        return frame;
    packets = (frame - header.hdr_len + header.gso_size - 1) / header.gso_size;
    return frame + (packets - 1) * header.hdr_len;
}

/* ---- from port to port ----------------------------------------------------------------------- */

static void send_later(struct relay *relay, uint32_t from, uint32_t to, uint32_t slot,
                       uint32_t bytes, int64_t now)
{
    struct port *port = &relay->ports[to];
    int64_t leave_ns = now + relay->ports[from].latency_ns + port->latency_ns;

    if (port->bytes_per_s > 0) {
        uint64_t wire = wire_bytes(bytes_of(relay, slot), bytes);

        port->full_ns = port->full_ns > leave_ns ? port->full_ns : leave_ns;
        port->full_ns += (int64_t)(wire * 1000000000 / port->bytes_per_s);
        if (port->full_ns - port->burst_ns > leave_ns)
            leave_ns = port->full_ns - port->burst_ns;
    }
    put(relay, &(struct frame){.leave_ns = leave_ns,
                               .number = relay->arrived_count++,
                               .bytes = bytes,
                               .port = to,
                               .slot = slot});
}

static bool to_all(const uint8_t *frame)
{
    return (frame[0] & 1) != 0;
}

/* A switch: learns who is where, and asks everywhere for those it does not know. */
static void switch_frame(struct relay *relay, uint32_t from, uint32_t slot, uint32_t bytes)
{
    const uint8_t *frame = bytes_of(relay, slot) + HEADER_BYTES;
    int64_t now = now_ns();

    memcpy(relay->ports[from].address, frame + ADDRESS_BYTES, ADDRESS_BYTES);
    relay->ports[from].known = true;
    for (uint32_t i = 0; i < relay->port_count && !to_all(frame); i++) {
        if (relay->ports[i].known && memcmp(relay->ports[i].address, frame, ADDRESS_BYTES) == 0) {
            if (i == from)
                relay->slots[relay->slot_count++] = slot;
            else
                send_later(relay, from, i, slot, bytes, now);
            return;
        }
    }
    for (uint32_t i = 0; i < relay->port_count && relay->slot_count > 0; i++) {
        uint32_t copy;

        if (i == from)
            continue;
        copy = relay->slots[--relay->slot_count];
        memcpy(bytes_of(relay, copy), bytes_of(relay, slot), bytes);
        send_later(relay, from, i, copy, bytes, now);
    }
    relay->slots[relay->slot_count++] = slot;
}

/* Takes in what has come, as long as there is room for it and for a copy to every port. */
static void receive(struct relay *relay, uint32_t from)
{
    for (int i = 0; i < READS_MAX && relay->slot_count > relay->port_count; i++) {
        uint32_t slot = relay->slots[relay->slot_count - 1];
        ssize_t count = read(relay->ports[from].fd, bytes_of(relay, slot), FRAME_BYTES);

        if (count < (ssize_t)(HEADER_BYTES + 2 * ADDRESS_BYTES))
            return;
        if (tutti_random_below(&relay->dice, 1000000) < relay->loss_ppm)
            continue;
        relay->slot_count--;
        switch_frame(relay, from, slot, (uint32_t)count);
    }
}

/* Lets go what is due; a port that is down loses it, as a cable does that is pulled out. */
static void release(struct relay *relay)
{
    while (relay->frame_count > 0 && relay->heap[0].leave_ns <= now_ns()) {
        struct frame frame = take(relay);
        ssize_t count;

        do
            count = write(relay->ports[frame.port].fd, bytes_of(relay, frame.slot), frame.bytes);
        while (count < 0 && errno == EINTR);
        relay->slots[relay->slot_count++] = frame.slot;
    }
}

/* Sleeps until a frame comes, or until the next one is due: to spin for the last moments made ranks
 * later that share the processors, with two of them (tests/bench/netlab.md). */
static int wait_for(struct relay *relay, struct pollfd *fds)
{
    int64_t sleep_ns = -1;
    struct timespec limit;
    bool room = relay->slot_count > relay->port_count;

    if (relay->frame_count > 0) {
        sleep_ns = relay->heap[0].leave_ns - now_ns();
        sleep_ns = sleep_ns > 0 ? sleep_ns : 0;
    }
    for (uint32_t i = 0; i < relay->port_count; i++)
        fds[i] = (struct pollfd){.fd = relay->ports[i].fd, .events = room ? POLLIN : 0};
    limit = (struct timespec){.tv_sec = (time_t)(sleep_ns / 1000000000),
                              .tv_nsec = (long)(sleep_ns % 1000000000)};
    return ppoll(fds, relay->port_count, sleep_ns < 0 ? NULL : &limit, NULL);
}

static int run(struct relay *relay, struct tutti_err *err)
{
    struct pollfd fds[PORTS_MAX];

    for (;;) {
        bool down = false;

        if (wait_for(relay, fds) < 0 && errno != EINTR)
            return tutti_fail(err, TUTTI_EIO, "cannot wait for frames: %s", strerror(errno));
        for (uint32_t i = 0; i < relay->port_count; i++) {
            if ((fds[i].revents & POLLIN) != 0)
                receive(relay, i);
            else if ((fds[i].revents & (POLLERR | POLLHUP)) != 0)
                down = true;
        }
        release(relay);
        if (down) /* poll would return at once */
            (void)nanosleep(&(struct timespec){.tv_nsec = DOWN_NS}, NULL);
    }
}

/* ---- making it ------------------------------------------------------------------------------- */

static int enter(const char *namespace, struct tutti_err *err)
{
    int fd = open(namespace, O_RDONLY | O_CLOEXEC);
    int status = 0;

    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        status = tutti_fail(err, TUTTI_EIO, "cannot enter namespace '%s': %s", namespace,
                            strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return status;
}

/* Attaches to a TAP device of the namespace that this thread is in. */
static int attach(const char *device, int *ret, struct tutti_err *err)
{
    unsigned offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    int header_bytes = HEADER_BYTES;
    struct ifreq request = {.ifr_flags = 0};
    int fd;

    if (strlen(device) >= sizeof(request.ifr_name))
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is too long for a device", device);
    memcpy(request.ifr_name, device, strlen(device) + 1);
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return tutti_fail(err, TUTTI_ELACK, "cannot open '/dev/net/tun': %s", strerror(errno));
    if (ioctl(fd, TUNSETIFF, &request) < 0 || ioctl(fd, TUNSETVNETHDRSZ, &header_bytes) < 0 ||
        ioctl(fd, TUNSETOFFLOAD, offloads) < 0) {
        tutti_fail(err, TUTTI_ELACK, "cannot attach to '%s': %s", device, strerror(errno));
        (void)close(fd);
        return -TUTTI_ELACK;
    }
    *ret = fd;
    return 0;
}

/* "FILE DEVICE LATENCY RATE BURST" as words; rate and burst "0": any rate. */
static int add_port(struct relay *relay, char **words, struct tutti_err *err)
{
    struct port port = {.fd = -1};
    tutti_ps latency_ps = 0;
    uint64_t burst = 0;
    int status = tutti_read_time(words[2], &latency_ps, err);

    if (status == 0 && strcmp(words[3], "0") != 0)
        status = tutti_read_rate(words[3], &port.bytes_per_s, err);
    if (status == 0)
        status = tutti_read_size(words[4], &burst, err);
    if (status == 0)
        status = enter(words[0], err);
    if (status == 0)
        status = attach(words[1], &port.fd, err);
    if (status < 0)
        return tutti_wrap(err, status, "port %u", relay->port_count);
    port.latency_ns = latency_ps / TUTTI_PS_PER_NS;
    if (port.bytes_per_s > 0)
        port.burst_ns = tutti_wire_ps(burst, port.bytes_per_s) / TUTTI_PS_PER_NS;
    relay->ports[relay->port_count++] = port;
    return 0;
}

/* "--loss PPM" before the ports; how many words that takes. */
static int read_loss(int word_count, char **words, struct relay *relay, int *ret_used,
                     struct tutti_err *err)
{
    char *end = NULL;

    *ret_used = 0;
    if (word_count == 0 || strcmp(words[0], "--loss") != 0)
        return 0;
    relay->loss_ppm = word_count > 1 ? strtoull(words[1], &end, 10) : 0;
    if (end == NULL || end == words[1] || *end != '\0' || relay->loss_ppm > 1000000)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--loss': '%s' is not 0 to 1000000 of a million",
                          word_count > 1 ? words[1] : "");
    *ret_used = 2;
    return 0;
}

static int open_relay(int word_count, char **words, struct relay *relay, struct tutti_err *err)
{
    int used;
    int status = read_loss(word_count, words, relay, &used, err);

    if (status < 0)
        return status;
    tutti_random_seed(&relay->dice, 1);
    word_count -= used;
    words += used;
    if (word_count < 2 * WORDS || word_count % WORDS != 0 || word_count / WORDS > PORTS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%d words (FILE DEVICE LATENCY RATE BURST for each of 2 to %d ports)",
                          word_count, PORTS_MAX);
    relay->memory = mmap(NULL, (size_t)FRAMES * FRAME_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (relay->memory == MAP_FAILED)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < FRAMES; i++)
        relay->slots[relay->slot_count++] = FRAMES - 1 - i;
    for (int i = 0; i < word_count && status == 0; i += WORDS)
        status = add_port(relay, words + i, err);
    return status;
}

int main(int argc, char **argv)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    struct tutti_err err = {.text = ""};
    int status;

    /* Ends with who started it, wakes on time, and before others where that is allowed. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_TIMERSLACK, 1);
    (void)sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 50});
    status = relay == NULL ? tutti_nomem(&err) : open_relay(argc - 1, argv + 1, relay, &err);
    if (status == 0)
        status = run(relay, &err);
    fprintf(stderr, "netlab_relay: %s\n", err.text);
    return status == -TUTTI_EINVAL ? 2 : status == -TUTTI_ELACK ? 77 : 1;
}
