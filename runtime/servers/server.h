/* A server's process: who is connected, and what it keeps. Private to this room. */
#ifndef TUTTI_RUNTIME_SERVERS_SERVER_H
#define TUTTI_RUNTIME_SERVERS_SERVER_H

#include "runtime/frames.h"
#include "runtime/servers/lead.h"
#include "runtime/servers/store.h"
#include "runtime/status.h"

/* A connection that has come. */
struct tutti_seat {
    struct tutti_frames *frames;
    double came_s;
    bool is_known;   /* has said who it is: */
    uint32_t role;   /* enum tutti_servers_role; CHIEF and WORKER train */
    uint32_t member; /* number of those that train, or of servers */
    bool waits;      /* its PULL or SNAPSHOT is answered once verdicts have come so far */
    enum tutti_server_message wanted; /* which */
    struct tutti_server_head want;
};

enum { TUTTI_SERVER_TOLD_MAX = 256 }; /* in one message */

struct tutti_server {
    struct tutti_servers_params params;
    const struct tutti_server_layout *layout;
    struct tutti_store *store;
    struct tutti_frames_opts opts;
    struct tutti_frames_listener *listener;
    struct tutti_frames *link; /* to server 0, of all others */
    struct tutti_lead *lead;   /* of server 0; else NULL */
    struct tutti_seat *seats;
    uint32_t seat_count;
    uint32_t seat_room;
    bool *seen; /* [those that train] have been here */
    uint32_t seen_count;
    double alive_s; /* when it last said that it is */
    double link_s;  /* when server 0 last said something */
    bool over;
    bool stopped; /* before its time */
    bool stop_asked;
    double over_s;
    int failed; /* a status, and why all is to end */
    struct tutti_err why;
    /* For the chief: steps that were made, until it says that it has seen the last ones. */
    struct tutti_servers_told *told; /* a ring */
    uint32_t told_first;
    uint32_t told_count;
    bool told_waits;
    char model_text[TUTTI_SERVER_TEXT_BYTES];
    char training_text[TUTTI_SERVER_TEXT_BYTES];
};

double tutti_server_now_s(void);
/* Between signs of life: half a second, and never more than a third of the deadline. */
double tutti_server_alive_every_s(const struct tutti_servers_params *params);

/* What all must have alike, for people and to be compared. */
void tutti_servers_describe(const struct tutti_servers_params *params,
                            const struct tutti_server_layout *layout,
                            char model[TUTTI_SERVER_TEXT_BYTES],
                            char training[TUTTI_SERVER_TEXT_BYTES]);

/* How connections are opened, those of this run alike. */
struct tutti_frames_opts tutti_servers_frames(const struct tutti_servers_params *params,
                                              const struct tutti_server_layout *layout);

/* A whole frame of a seat: -TUTTI_EINVAL: it says what it must not, and is to be sent away. */
int tutti_server_take(struct tutti_server *server, struct tutti_seat *seat,
                      const struct tutti_frames_got *got, struct tutti_err *err);
/* What a verdict says, here; and then those whose answers waited for it. */
int tutti_server_carry_out(struct tutti_server *server, const struct tutti_server_head *verdict,
                           struct tutti_err *err);
void tutti_server_answer_waiting(struct tutti_server *server);
/* To a seat; one that does not take it is seen to have ended by whoever polls it. */
void tutti_server_send(struct tutti_seat *seat, enum tutti_server_message message,
                       const struct tutti_server_head *head, const void *body, size_t bytes);
/* Steps to the chief, if it is there and has seen those before. */
void tutti_server_tell_chief(struct tutti_server *server);
struct tutti_seat *tutti_server_seat_of(struct tutti_server *server, bool trains, uint32_t member);
extern const struct tutti_lead_calls tutti_server_lead_calls;

int tutti_servers_serve(const struct tutti_servers_params *params,
                        const struct tutti_server_layout *layout, struct tutti_servers_result *ret,
                        struct tutti_err *err);
/* Those that train. */
int tutti_servers_work(const struct tutti_servers_params *params,
                       const struct tutti_server_layout *layout, struct tutti_servers_result *ret,
                       struct tutti_err *err);

#endif
