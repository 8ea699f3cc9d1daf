#include "services/foghorn/federation/dialling.h"

namespace warren::federation {

Dialler dialler_of(const std::string& who_dials, const std::string& who_is_dialled) {
  return who_dials < who_is_dialled ? Dialler::smaller : Dialler::larger;
}

Result<> may_stay(const Greeted& next, const std::optional<Greeted>& there,
                  const std::string& peer) {
  if (!there || next.leader > there->leader) return ok;
  if (next.leader < there->leader) return fail(Errc::refused, "a newer leader of {} is here", peer);
  // Of the same dialler it is a newer one: he would not dial if he had the other still.
  if (next.by == Dialler::larger && there->by == Dialler::smaller)
    return fail(Errc::refused, "there is a channel to {} already", peer);
  return ok;
}

Clock::time_point dials_from(Dialler self, Clock::time_point alone_since,
                             const FederationTerms& terms) {
  switch (self) {
    case Dialler::smaller:
      return alone_since;
    case Dialler::larger:
      return alone_since + terms.larger_dials_after;
  }
  return alone_since;
}

}  // namespace warren::federation
