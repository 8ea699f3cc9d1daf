#include "net/kube/access.h"

namespace warren::kube {

Asked<std::vector<std::string>> missing_rights(Client& client,
                                               std::vector<AccessQuestion> questions,
                                               Clock::time_point deadline) {
  std::vector<std::string> missing;
  for (auto& question : questions) {
    auto line = fmt::format("{} {}", question.verb, text_of(question.place));
    auto may = co_await client.may(std::move(question), deadline);
    if (!may) co_return std::unexpected(may.error());
    if (!*may) missing.push_back(std::move(line));
  }
  co_return missing;
}

}  // namespace warren::kube
