/* A question as its caller has it, made whole. */
#ifndef TUTTI_SIM_PREDICT_ASK_H
#define TUTTI_SIM_PREDICT_ASK_H

struct tutti_ask;
struct tutti_err;
struct tutti_protocol;

/* A copy with all fields that this version knows. -TUTTI_EINVAL, -TUTTI_ELACK: see tutti_take(). */
int tutti_ask_take(const struct tutti_ask *given, struct tutti_ask *ret, struct tutti_err *err);

/* Of a whole question: TUTTI_PROTOCOLS of them. */
const struct tutti_protocol *tutti_ask_protocols(const struct tutti_ask *ask);

#endif
