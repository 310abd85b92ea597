/* The calibrations that are compiled in, and what they say of a machine; see sim/calib.h. */
#include "sim/calib/builtin.h"

#include "runtime/status.h"
#include "sim/calib.h"

static int parse(const struct tutti_calib_text *from, struct tutti_calib **ret,
                 struct tutti_err *err)
{
    return tutti_calib_parse(from->name, from->text, from->bytes, ret, err);
}

int tutti_calib_builtin(struct tutti_calib **ret, struct tutti_err *err)
{
    return parse(&tutti_calib_text_fitted, ret, err);
}

int tutti_calib_nccl(struct tutti_calib **ret, struct tutti_err *err)
{
    return parse(&tutti_calib_text_nccl, ret, err);
}

int tutti_calibrated_for(const struct tutti_topo *topo, struct tutti_calibrated *ret,
                         struct tutti_err *err)
{
    struct tutti_calib *fitted = NULL;
    struct tutti_calib *nccl = NULL;
    int status = tutti_calib_builtin(&fitted, err);

    if (status == 0)
        status = tutti_calib_nccl(&nccl, err);
    if (status == 0) {
        const struct tutti_calib *layers[] = {fitted, nccl};
        struct tutti_calib_machine machine = tutti_calib_machine_of(topo);

        *ret = tutti_calib_compose(layers, 2, &machine);
    }
    tutti_calib_free(fitted);
    tutti_calib_free(nccl);
    return status;
}
