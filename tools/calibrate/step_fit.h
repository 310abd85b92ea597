/* Constants of one framework fitted to measured training steps: robust, in logarithms, and held by
 * priors, so that few rows move them little. */
#ifndef TUTTI_TOOLS_CALIBRATE_STEP_FIT_H
#define TUTTI_TOOLS_CALIBRATE_STEP_FIT_H

#include "sim/device.h"
#include "tools/calibrate/step_rows.h"

struct tutti_calib;

enum { TUTTI_STEP_CONSTANTS_MAX = 32 };

/* A constant that was free. */
struct tutti_step_constant {
    const struct tutti_framework_constant *what;
    double given;
    double fitted;
    double low; /* its 95 % interval, the prior included */
    double high;
    bool told; /* the rows say more of it than the prior does */
};

struct tutti_step_fit {
    const struct tutti_framework *given;
    struct tutti_framework fitted;
    struct tutti_step_constant constants[TUTTI_STEP_CONSTANTS_MAX];
    size_t constant_count;
    size_t row_count;
    size_t fold_count; /* fits that judge rows they have not seen; 0: too few rows for that */
    double spread;     /* by which a row is usually off, in logarithms */
};

/* Fits to the rows of `given`, and leaves in them what is fitted and unseen. Free are the constants
 * that are named; without a name those that move any row by a hundredth if they move by a tenth. */
int tutti_step_fit_solve(struct tutti_step_rows *rows, const struct tutti_framework *given,
                         const struct tutti_framework_constant *const *named, size_t named_count,
                         struct tutti_step_fit *ret, struct tutti_err *err);

/* Sets "framework.NAME.CONSTANT" of all that was free; `source` is a word that was set before. */
int tutti_step_fit_keep(const struct tutti_step_fit *fit, const char *source,
                        struct tutti_calib *calib, struct tutti_err *err);

#endif
