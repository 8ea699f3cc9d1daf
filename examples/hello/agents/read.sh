# For agents: the target of the claim as shell variables. Texts stay as JSON has them, escaped, so
# that they can be put into JSON again.
input=$(cat)

# The first member of a name is the target's. A text ends where the next member begins: quotes within
# the text are escaped, so it cannot look like that itself.
type=${input#*\"type\":\"}
type=${type%%\",\"payload\":*}
payload=${input#*\"payload\":\"}
payload=${payload%%\",\"source_artefacts\":*}
version=${input#*\"version\":}
version=${version%%,*}
