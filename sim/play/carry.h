/* The data of a simulated run: buffers of every rank, moved and reduced when steps complete. */
#ifndef TUTTI_SIM_PLAY_CARRY_H
#define TUTTI_SIM_PLAY_CARRY_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_err;
struct tutti_play;
struct tutti_schedule;
struct tutti_step;

/* A message is not copied when it is sent: the RECV (or the REDUCE fused with it) reads the
 * sender's bytes when it completes, which the schedule's rules allow, and which shows up any
 * schedule that overwrites them too early. */
struct tutti_carry {
    bool on;
    const struct tutti_schedule *schedule;
    const void *const *in; /* the caller's, or NULL */
    void *const *out;
    void *const *state;
    unsigned char *own_in; /* zeroes for all ranks to read, if the caller gave no buffers */
    unsigned char *own_out;
    unsigned char *own_state;
    unsigned char *scratch;
};

/* Takes memory for scratch and, if `play` has none, for in and out. */
int tutti_carry_init(struct tutti_carry *carry, const struct tutti_play *play, bool wanted,
                     struct tutti_err *err);
void tutti_carry_done(struct tutti_carry *carry);

/* What a step does to data, on behalf of the rank that runs it; nothing if carrying is off.
 * `sender` and `send` say whence a message comes. */
void tutti_carry_recv(const struct tutti_carry *carry, uint32_t rank, const struct tutti_step *recv,
                      uint32_t sender, const struct tutti_step *send);
/* REDUCE and COPY; `send` not NULL: the REDUCE reads its src from the message. */
void tutti_carry_local(const struct tutti_carry *carry, uint32_t rank,
                       const struct tutti_step *step, uint32_t sender,
                       const struct tutti_step *send);
/* COMPUTE: really does its work, where it has a function. */
int tutti_carry_work(const struct tutti_carry *carry, uint32_t rank, const struct tutti_step *step,
                     uint64_t iteration, struct tutti_err *err);

#endif
