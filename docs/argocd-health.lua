-- Health of a FormSpec object for Argo CD, from its conditions: see docs/operations.md, GitOps.
local is = {}
for _, c in ipairs(obj.status and obj.status.conditions or {}) do is[c.type] = c end
if is.Ready == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "the operator has not seen this generation yet" }
end
local function on(condition) return is[condition] ~= nil and is[condition].status == "True" end
local status = (on("Stalled") or on("Degraded")) and "Degraded" or on("Ready") and "Healthy" or "Progressing"
return { status = status, message = is.Ready.reason .. ": " .. is.Ready.message }
