{{- define "paydesk.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "paydesk.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "paydesk.labels" -}}
{{ include "paydesk.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Seconds until Kubernetes kills a pod. A number below the drain and 15 s is refused. */}}
{{- define "paydesk.grace" -}}
{{- $least := add (.Values.drainSeconds | ceil | int) 15 -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given }}{{ $least -}}
{{- else if lt (int $given) (int $least) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d, less than drainSeconds and 15 s: set it to %d or more, or to null." (int $given) (int $least)) -}}
{{- else }}{{ int $given }}{{ end -}}
{{- end }}

{{/* What all containers have. */}}
{{- define "paydesk.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "paydesk.podSecurity" -}}
automountServiceAccountToken: false
# A Service named paydesk would add variables that are no settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* For nodes and migrations: behind a pooler, migrations need PostgreSQL itself. */}}
{{- define "paydesk.database" -}}
- name: PAYDESK_DATABASE_URL
  valueFrom:
    secretKeyRef: {{- toYaml .Values.database.secret | nindent 6 }}
{{- with .Values.database.listenSecret }}
{{- if .name }}
- name: PAYDESK_DATABASE_LISTEN_URL
  valueFrom:
    secretKeyRef: {{- toYaml . | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "paydesk.migrate" -}}
- name: migrate
  {{- include "paydesk.container" . | nindent 2 }}
  args: [migrate]
  env: {{- include "paydesk.database" . | nindent 4 }}
  resources: {{- toYaml .Values.resources | nindent 4 }}
{{- end }}
