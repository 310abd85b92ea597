/* What a fit may change: values of a calibration, each a product over classes from general to
 * special, so that what is measured of one class tells something of the others. */
#ifndef TUTTI_TOOLS_CALIBRATE_FIT_VALUES_H
#define TUTTI_TOOLS_CALIBRATE_FIT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/calib.h"
#include "sim/fit.h"
#include "tools/calibrate/fit_cases.h"

struct tutti_command;
struct tutti_sink;

/* A value is its least, mostly 0, and e to the power of: its base plus one parameter a level: of
 * the group of links (all of a kind, any GPU), of the class of link (any GPU), of class of link and
 * family of GPUs, and of the GPU, if it is not what its family is called after. */
enum { TUTTI_FIT_LEVELS = 4 };

struct tutti_fit_value {
    char name[TUTTI_CALIB_NAME_BYTES]; /* GPU.LINK.PROTOCOL.QUANTITY */
    uint32_t levels[TUTTI_FIT_LEVELS]; /* parameters; TUTTI_FIT_NONE */
    double base;                       /* a logarithm */
    double least;                      /* that it is more than: the logarithm is of the rest */
    double most;                       /* that it may be */
    uint8_t protocol;
    bool late;     /* of versions of NCCL that are not early (sim/nccl.h) ... */
    bool early;    /* ... and of those that are, alone */
    bool switches; /* of NVSwitch adding up */
    bool ways;     /* of ways between hosts, as its trees take too */
    bool messages; /* of sends and receives, and of threads where switches add up */
    bool open;     /* the data do not tell it: set by tutti_fit_values_result() */
};

struct tutti_fit_parameter {
    char name[TUTTI_CALIB_NAME_BYTES]; /* the class: "net", "any.ib", "h100.ib" and the rest */
    double sigma;
};

/* What another value does to times that hang on it. */
struct tutti_fit_change {
    uint32_t parameter; /* whose derivative is that by this value alone */
    double sign;        /* 1: the time goes with the value, -1: with its inverse */
    double ratio;       /* of its part of the time, now to then */
    double then, now;   /* 0 to 1: how much of the value its parameters move, all but its least */
    bool holds;         /* and goes on changing with the value */
};

struct tutti_fit_values {
    struct tutti_fit_cases *cases;
    const struct tutti_calib *base;
    struct tutti_calib *calib; /* as the parameters are that were set last */
    size_t value_count, value_capacity;
    struct tutti_fit_value *values;
    size_t parameter_count, parameter_capacity;
    struct tutti_fit_parameter *parameters;
    bool *uses;           /* [case][value]: whether its machine has it, once all are known */
    uint32_t *used;       /* [case][value]: the numbers of these, in order ... */
    uint32_t *used_count; /* [case]: ... as many of them */
    double *last;         /* [parameter]: of the last call for all points, and since then */
    double *shifted;      /* [value][point]: the times with that value alone `shift` away */
    bool *is_shifted;     /* [value][case]: whether they are known */
    double shift;
    struct tutti_fit_change *changes;    /* [value]: room for tutti_fit_values_approximate() */
    const struct tutti_command *command; /* that fits ... */
    struct tutti_sink *sink;             /* ... and shows how far it is */
};

int tutti_fit_values_open(struct tutti_fit_cases *cases, const struct tutti_calib *base,
                          struct tutti_fit_values *ret, struct tutti_err *err);
void tutti_fit_values_close(struct tutti_fit_values *values);

/* The value by some parameters. */
double tutti_fit_value_at(const struct tutti_fit_value *value, const double *parameters);

/* Gives values->calib all values by those parameters. */
int tutti_fit_values_set(struct tutti_fit_values *values, const double *parameters,
                         struct tutti_err *err);

/* As struct tutti_fit_problem asks for; the context is the values. */
int tutti_fit_values_predict(void *context, const double *parameters, uint32_t changed,
                             double *times, struct tutti_err *err);

int tutti_fit_values_predict_near(void *context, const double *near, const double *parameters,
                                  const bool *skipped, double *times, struct tutti_err *err);

int tutti_fit_values_differentiate_near(void *context, const double *parameters,
                                        const bool *skipped, const double *times, double *jacobian,
                                        struct tutti_err *err);

/* As approximate() of struct tutti_fit_problem: the same messages as at the solution bind each
 * time. See fit_paths.c. */
void tutti_fit_values_approximate(void *context, const struct tutti_fit *fit,
                                  const double *parameters, double *times, double *jacobian);

/* The calibration that a fit comes to, with intervals, and general values for classes that nothing
 * was measured of. *ret_open: values that the data do not tell. */
int tutti_fit_values_result(struct tutti_fit_values *values, const struct tutti_fit *fit,
                            const char *source, struct tutti_calib **ret, size_t *ret_open,
                            struct tutti_err *err);

#endif
