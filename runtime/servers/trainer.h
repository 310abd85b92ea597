/* One that trains, a worker or the chief: its connections, what server 0 wants of it, and what it
 * has of the model. Private to this room. */
#ifndef TUTTI_RUNTIME_SERVERS_TRAINER_H
#define TUTTI_RUNTIME_SERVERS_TRAINER_H

#include "runtime/frames.h"
#include "runtime/servers/server.h"

struct tutti_server_saving;

/* An order of server 0 that is to be carried out when there is time. */
struct tutti_order {
    bool is_there;
    struct tutti_server_head head;
};

struct tutti_server_trainer {
    struct tutti_servers_params params;
    const struct tutti_server_layout *layout;
    struct tutti_frames_opts opts;
    struct tutti_frames **links; /* [server_count] */
    bool is_chief;
    bool computes;
    struct tutti_order start;
    struct tutti_order set_up;
    struct tutti_order save;
    uint64_t aborted; /* an episode of ... */
    uint64_t aborted_generation;
    bool finished;
    bool broken; /* a connection did not take what was sent */
    int failed;  /* and why: server 0 says so */
    struct tutti_err why;
    double heard_s; /* when server 0 last said something */
    double alive_s; /* when the chief last said that it is */
    struct tutti_servers_result *result;
    /* What is learnt. */
    void *replica;
    float *weights;      /* [elements], as they were pulled */
    float *gradient;     /* likewise */
    float *part;         /* of a server, with moments: the largest */
    uint64_t local_step; /* batches that this worker has had */
    const float **layer_weights;
    float **layer_gradients;
    struct tutti_server_saving *saving; /* the chief's; NULL: it has no folder */
    double asked_s;                     /* when the chief last asked for a save */
    bool stop_asked;
    bool stop_said; /* to server 0, by this connection */
};

/* Sends to a server; its end is seen by who receives. */
int tutti_trainer_tell(struct tutti_server_trainer *trainer, uint32_t server,
                       enum tutti_server_message message, const struct tutti_server_head *head,
                       const void *body, size_t bytes, const void *more, size_t more_bytes,
                       struct tutti_err *err);
/* The answer of that kind; what server 0 wants meanwhile is kept for later. `body_bytes`: what has
 * to follow the head, or nothing where head.sequence is 0. */
int tutti_trainer_await(struct tutti_server_trainer *trainer, uint32_t server,
                        enum tutti_server_message message, uint64_t body_bytes,
                        struct tutti_server_head *ret_head, const uint8_t **ret_body,
                        struct tutti_err *err);
/* What has come of server 0 by now; waits for it for up to so long. */
int tutti_trainer_listen(struct tutti_server_trainer *trainer, tutti_ps wait_ps,
                         struct tutti_err *err);

/* Whether server 0 no longer wants an episode. */
bool tutti_trainer_is_aborted(const struct tutti_server_trainer *trainer,
                              const struct tutti_server_head *head);

/* An episode: pull, compute, push. */
int tutti_trainer_episode(struct tutti_server_trainer *trainer, struct tutti_err *err);

/* ---- the chief (chief.c) ---- */

int tutti_chief_open(struct tutti_server_trainer *trainer, struct tutti_err *err);
int tutti_chief_set_up(struct tutti_server_trainer *trainer, struct tutti_err *err);
int tutti_chief_save(struct tutti_server_trainer *trainer, struct tutti_err *err);
/* What goes on beside: files that are written; saves that are due by the clock, or `wanted`. */
int tutti_chief_look(struct tutti_server_trainer *trainer, int wanted, struct tutti_err *err);
bool tutti_chief_is_busy(const struct tutti_server_trainer *trainer);
void tutti_chief_close(struct tutti_server_trainer *trainer);

#endif
