#pragma once
// Checks our permissions before they are needed, so that a role that lacks a verb is reported at
// startup, with the missing rule.
#include "net/kube/client.h"

namespace warren::kube {

// One line for each question that is answered with no: "patch statefulsets/scale in search".
Asked<std::vector<std::string>> missing_rights(Client& client,
                                               std::vector<AccessQuestion> questions,
                                               Clock::time_point deadline);

}  // namespace warren::kube
