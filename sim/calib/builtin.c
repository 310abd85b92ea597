/* The calibration that is compiled in; see sim/calib.h. */
#include "sim/calib/builtin.h"

#include "runtime/status.h"
#include "sim/calib.h"

int tutti_calib_builtin(struct tutti_calib **ret, struct tutti_err *err)
{
    return tutti_calib_parse("traces/measured/calibration.txt",
                             (const char *)tutti_calib_builtin_text, tutti_calib_builtin_bytes, ret,
                             err);
}
