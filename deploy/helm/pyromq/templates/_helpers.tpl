{{- define "pyromq.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}

{{- define "pyromq.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}

{{- define "pyromq.labels" -}}
app.kubernetes.io/name: pyromq
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "pyromq.selector" -}}
app.kubernetes.io/name: pyromq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The name servers' pods, each with its own name: brokers register with all of them. */}}
{{- define "pyromq.nameservers" -}}
{{- $name := printf "%s-nameserver" (include "pyromq.name" .) -}}
{{- $addresses := list -}}
{{- range $number := until (int .Values.nameserver.replicas) -}}
{{- $addresses = append $addresses (printf "%s-%d.%s:%d" $name $number $name (int $.Values.nameserver.port)) -}}
{{- end -}}
{{- join ";" $addresses -}}
{{- end }}

{{- define "pyromq.check" -}}
{{- if and (not .Values.security.secretName) (not .Values.security.insecureNetwork) -}}
{{- fail "say who may connect: security.secretName (users and TLS), or security.insecureNetwork=true" -}}
{{- end -}}
{{- if and (gt (int .Values.broker.members) 1) (not .Values.security.insecureReplication) -}}
{{- fail "what goes from a master to its replicas is not encrypted: say security.insecureReplication=true if the network between their pods is theirs, or broker.members=1 for brokers without replicas" -}}
{{- end -}}
{{- end }}

{{- define "pyromq.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "pyromq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "pyromq.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "pyromq.volumes" -}}
- {name: tmp, emptyDir: {}}
{{- with .Values.security.secretName }}
- {name: security, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- end }}

{{- define "pyromq.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- with .Values.security.secretName }}
- {name: security, mountPath: /etc/pyromq, readOnly: true}
{{- end }}
{{- end }}
