/* A pair from inside, and the queue of those that wait to be accepted. Private to runtime/group. */
#ifndef TUTTI_RUNTIME_GROUP_PAIR_H
#define TUTTI_RUNTIME_GROUP_PAIR_H

#include <pthread.h>

#include "runtime/pair.h"

enum { TUTTI_PAIR_HEAD_BYTES = 32 };

struct tutti_pair {
    int fd;
    struct tutti_pair_peer peer;
    bool ended; /* why says how */
    char why[512];
    uint32_t incarnation; /* older ones are dropped */
    uint64_t step;
    uint64_t dropped_count;
    /* The frame that was given out last, and the one that comes in. */
    void *given;
    uint8_t head[TUTTI_PAIR_HEAD_BYTES];
    size_t head_bytes;
    struct tutti_pair_frame frame; /* once the head is whole */
    bool drops;                    /* its body */
    uint8_t *body;
    uint64_t body_bytes;
    bool whole; /* waits to be given out */
};

/* Takes the socket over; NULL: no memory, and it is still the caller's. */
struct tutti_pair *tutti_pair_new(int fd, uint32_t id, uint64_t key);

/* Those that wait to be accepted; the last incarnation's are the next one's. */
struct tutti_pair_queue {
    pthread_mutex_t lock; /* guards pairs and count */
    int event_fd;         /* readable while there are some */
    uint32_t count;
    struct tutti_pair *pairs[TUTTI_PAIR_WAITING_MAX];
};

struct tutti_pair_queue *tutti_pair_queue_new(void); /* NULL: no memory, or no descriptor */
void tutti_pair_queue_free(struct tutti_pair_queue *queue);

#endif
