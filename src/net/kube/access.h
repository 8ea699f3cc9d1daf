#pragma once
// What we may do, found out before it is needed: so that a role that lacks a verb is told at the start,
// with the rule that is missing.
#include "net/kube/client.h"

namespace warren::kube {

// One line for each question that is answered with no: "patch statefulsets/scale in search".
Asked<std::vector<std::string>> missing_rights(Client& client,
                                               std::vector<AccessQuestion> questions,
                                               Clock::time_point deadline);

}  // namespace warren::kube
